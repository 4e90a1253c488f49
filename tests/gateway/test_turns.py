"""Tenants, priorities and classes, from the caller's headers to units and over two gateways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from hashlib import blake2b
from typing import Any

import httpx
import pytest
import pytest_asyncio

from shoal.broker.server import BrokerServer
from shoal.core.admission_events import Outstanding
from shoal.errors import ConfigError
from shoal.gateway.access import Access
from shoal.settings import GatewaySettings
from shoal.wire.queue import GatewayPulse, Unit
from tests.gateway.conftest import MODEL, Served, serving, until
from tests.gateway.held import Held, costly
from tests.gateway.scripted import ScriptedWorker

pytestmark = pytest.mark.asyncio(loop_scope="session")


def tag(user: str) -> str:
    return blake2b(user.encode(), digest_size=4).hexdigest()


async def unit_of(served: Served, worker: ScriptedWorker, **headers: str) -> Unit:
    """The unit that a request with these headers becomes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    worker.units.clear()
    assert (await served.encode(["a"], headers=named)).status_code == 200
    (unit,) = worker.units
    return unit


# --- what a request says ------------------------------------------------------------------------


async def test_headers_become_fields_of_the_unit(gateway: Served, worker: ScriptedWorker) -> None:
    plain = await unit_of(gateway, worker)
    assert (plain.tenant, plain.priority, plain.klass) == ("", 0, "work")
    given = await unit_of(gateway, worker, x_user="ann", x_priority="-7", x_class="bulk")
    assert (given.tenant, given.priority, given.klass) == (f"/{tag('ann')}", -7, "bulk")


async def test_openai_users_are_the_same_users(gateway: Served, worker: ScriptedWorker) -> None:
    assert (await gateway.embeddings("a", user="ann")).status_code == 200
    assert [unit.tenant for unit in worker.units] == [f"/{tag('ann')}"]


async def test_a_user_of_any_length_and_alphabet_is_a_short_tag(
    gateway: Served, worker: ScriptedWorker
) -> None:
    for user in ("x" * 100_000, "Zoë \u0000\U0001f41f", "\ud800"):
        worker.units.clear()
        body = b'{"model": "tiny", "input": "a", "user": %b}' % _json_text(user)
        response = await gateway.http.post("/v1/embeddings", content=body)
        assert response.status_code in (200, 400), response.text
        assert all(len(unit.tenant) == 9 for unit in worker.units)


def _json_text(text: str) -> bytes:
    return b'"%b"' % "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in text).encode()


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("X-Priority", "11"),
        ("X-Priority", "-11"),
        ("X-Priority", "high"),
        ("X-Priority", "1.5"),
        ("X-Priority", "1_0"),
        ("X-Priority", ""),
        ("X-Priority", "9" * 5000),
        ("X-Class", "bluk"),
        ("X-Class", "WORK"),
    ],
)
async def test_what_is_no_priority_or_class_is_refused(
    gateway: Served, worker: ScriptedWorker, header: str, value: str
) -> None:
    response = await gateway.encode(["a"], headers={header: value})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == header
    assert value[:40] in response.json()["error"]["message"]
    assert worker.units == []


@pytest.mark.parametrize(
    ("header", "values", "status"),
    [
        ("X-Priority", ("1", "2"), 400),
        ("X-Class", ("bulk", "work"), 400),
        ("Authorization", ("Bearer sesame", "Bearer other"), 401),
        ("X-User", ("ann", "bob"), 200),
    ],
)
async def test_a_header_that_comes_twice_is_one_with_both_values(
    broker: BrokerServer,
    worker: ScriptedWorker,
    header: str,
    values: tuple[str, str],
    status: int,
) -> None:
    key = {"Authorization": "Bearer sesame"} if header != "Authorization" else {}
    async with serving(broker, api_key="sesame") as served:
        twice = [*key.items(), *((header, value) for value in values)]
        response = await served.encode(["a"], headers=twice)
        assert response.status_code == status, response.text
        if status == 200:
            assert [unit.tenant for unit in worker.units] == [f"/{tag('ann, bob')}"]


async def test_bulk_may_wait_as_long_as_any_request(
    gateway: Served, worker: ScriptedWorker
) -> None:
    settings = gateway.app.gateway.settings
    bulk = await unit_of(gateway, worker, x_class="bulk")
    work = await unit_of(gateway, worker)
    assert settings.max_timeout_s - 5 < bulk.budget_s <= settings.max_timeout_s
    assert settings.timeout_s - 5 < work.budget_s <= settings.timeout_s


# --- keys ---------------------------------------------------------------------------------------


async def test_the_name_of_a_key_is_the_tenant(
    broker: BrokerServer, worker: ScriptedWorker
) -> None:
    keys = ["acme:secret-1", "acme:secret-2", "other:colon:in:it"]
    async with serving(broker, api_key="plain", api_keys=keys) as served:
        expected = {"secret-1": "acme", "secret-2": "acme", "colon:in:it": "other", "plain": ""}
        for key, tenant in expected.items():
            unit = await unit_of(served, worker, authorization=f"Bearer {key}")
            assert unit.tenant == tenant
        unit = await unit_of(served, worker, authorization="Bearer secret-1", x_user="ann")
        assert unit.tenant == f"acme/{tag('ann')}"
        for wrong in ("acme:secret-1", "acme", "secret-", "secret-1x"):
            response = await served.encode(["a"], headers={"authorization": f"Bearer {wrong}"})
            assert response.status_code == 401
        assert (await served.encode(["a"])).json()["error"]["code"] == "unauthorized"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["just-a-key"], "entry 1 is not 'name:key'"),
        (["fine:k1", "a/b:k2"], "entry 2 is not 'name:key'"),
        (["empty:"], "entry 1 is not 'name:key'"),
        (["spaced: k"], "entry 1 is not 'name:key'"),
        (["one:same", "two:same"], "entry 2 ('two') has another's key"),
    ],
)
async def test_a_wrong_list_of_keys_is_refused_without_showing_one(
    keys: list[str], said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        Access(GatewaySettings(api_keys=keys))
    assert said in refused.value.message
    assert "same" not in refused.value.message.replace("has another's", "")


@pytest.mark.parametrize("key", ["", " ", "sesame "])
async def test_a_key_that_nobody_could_send_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="'api_key' is empty, or begins or ends with a space"):
        Access(GatewaySettings(api_key=key))


# --- two gateways over one broker ---------------------------------------------------------------


@pytest_asyncio.fixture(loop_scope="session")
async def pair(gateway: Served, broker: BrokerServer) -> AsyncIterator[tuple[Served, Served]]:
    limits: dict[str, Any] = {"window_batches": 2.0, "max_queue_s": 5.0, "max_bulk_s": 50.0}
    async with serving(broker, **limits) as first, serving(broker, **limits) as second:
        yield first, second


def calls(served: Served, count: int, **headers: str) -> list[asyncio.Task[httpx.Response]]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return [asyncio.create_task(served.encode(["a"], headers=named)) for _ in range(count)]


async def pulsed(
    served: Served, worker: ScriptedWorker, wanted: Callable[[GatewayPulse], bool]
) -> None:
    """Such a pulse of this gateway comes from now on."""
    worker.gateway_pulses.clear()
    id_ = served.app.gateway.id
    await until(lambda: any(p.gateway == id_ and wanted(p) for p in worker.gateway_pulses))


async def has_heard(listener: Served, other: Served, worker: ScriptedWorker) -> None:
    """`listener` knows what `other` has now: its next pulse came, and one of its own after it."""
    queued_s = other.app.gateway.inflight.outstanding().queued_s
    await pulsed(other, worker, lambda pulse: pulse.queued_s == queued_s)
    await pulsed(listener, worker, lambda pulse: True)


async def holding(pair: tuple[Served, Served], worker: ScriptedWorker, item_s: float) -> Held:
    """The worker keeps what comes from now on; both gateways know what an item takes."""
    for served in pair:
        await costly(served, worker, item_s)
    return Held(worker)


async def all_answered(held: Held, waiting: list[asyncio.Task[httpx.Response]]) -> None:
    """Let go of everything: it is all that was missing."""
    held.send_all()
    assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {200}


async def test_two_gateways_share_one_window(
    pair: tuple[Served, Served], worker: ScriptedWorker
) -> None:
    first, second = pair
    held = await holding(pair, worker, 2.0**-6)  # 14 units in the window of 0.23 s
    waiting = calls(first, 40)
    await until(lambda: first.app.gateway.inflight.units == 40 and len(held.units) == 14 + 3)
    await has_heard(second, first, worker)
    waiting += calls(second, 40)
    await until(lambda: second.app.gateway.inflight.units == 40)
    # Of the window as much as of all that waits is here; alone it would be 17 as well.
    await until(lambda: len(held.units) >= 17 + 8)
    assert second.app.gateway.inflight.outstanding().queued_s[MODEL] * 2**6 <= 9
    await all_answered(held, waiting)


async def test_two_gateways_share_the_limit_and_a_light_user_finds_room(
    pair: tuple[Served, Served], worker: ScriptedWorker
) -> None:
    first, second = pair
    held = await holding(pair, worker, 1.0)
    waiting = calls(first, 5, x_user="flood")
    await until(lambda: first.app.gateway.inflight.units == 5)
    await has_heard(second, first, worker)
    (refused,) = await asyncio.gather(*calls(second, 1, x_user="flood"))
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    waiting += calls(second, 1, x_user="light")
    await until(lambda: any(u.reply_to.endswith(second.app.gateway.id) for u, _ in held.units))
    await all_answered(held, waiting)


async def test_bulk_work_takes_no_room_from_interactive_work(
    pair: tuple[Served, Served], worker: ScriptedWorker
) -> None:
    first, second = pair
    held = await holding(pair, worker, 1.0)
    waiting = calls(first, 30, x_class="bulk")
    await until(lambda: first.app.gateway.inflight.units == 30)
    await has_heard(second, first, worker)
    waiting += calls(second, 20, x_class="bulk")
    await until(lambda: second.app.gateway.inflight.units == 20)
    assert [r.status_code for r in await asyncio.gather(*calls(second, 1, x_class="bulk"))] == [429]
    assert any(p.bulk_s.get(MODEL) == 30.0 for p in worker.gateway_pulses)
    waiting += calls(second, 2)
    await until(lambda: sum(unit.klass == "work" for unit, _ in held.units) == 2)
    await all_answered(held, waiting)


async def test_a_deadline_at_one_gateway_leaves_the_other_alone(
    pair: tuple[Served, Served], worker: ScriptedWorker
) -> None:
    first, second = pair
    held = await holding(pair, worker, 0.05)
    kept = calls(first, 6)
    late = calls(second, 6, x_request_timeout="0.4")
    assert [(await answer).status_code for answer in late] == [504] * 6
    assert second.app.gateway.inflight.units == 0
    id_ = second.app.gateway.id
    own = {u.request for u, _ in held.units if u.reply_to.endswith(id_)}
    await until(lambda: own <= set(worker.cancelled))
    assert all(request.startswith(id_) for request in worker.cancelled)
    await all_answered(held, kept)


async def test_a_gateway_that_leaves_no_longer_counts_at_once(
    gateway: Served, broker: BrokerServer, worker: ScriptedWorker
) -> None:
    async with serving(broker) as leaving:
        await until(lambda: not leaving.app.gateway.missing())
    last = [p for p in worker.gateway_pulses if p.gateway == leaving.app.gateway.id][-1]
    assert (last.outstanding_s, last.queued_s) == ({}, {})


async def test_a_pulse_too_large_for_a_message_goes_without_its_tenants(
    gateway: Served, worker: ScriptedWorker
) -> None:
    waiting_s = {f"{number:0>64}/": 1.0 for number in range(120_000)}  # the broker takes 8 MiB
    gateway.app.gateway.tell(Outstanding({"crowded": 9.0}, waiting_s={"crowded": waiting_s}))

    def told() -> list[GatewayPulse]:
        return [p for p in worker.gateway_pulses if p.outstanding_s.get("crowded") == 9.0]

    await until(told)
    assert told()[0].waiting_s == {}
