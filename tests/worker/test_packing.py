"""Many models on real runtimes: loaded on demand by evicting others, once by a crowd, recycled."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from shoal.broker.connection import Connection
from shoal.broker.kv import Bucket
from shoal.broker.server import BrokerServer
from shoal.core import events as ev
from shoal.core import strangers
from shoal.core.recycle import READINGS, SLACK_BYTES
from shoal.settings import CommonSettings
from shoal.telemetry.metrics import WorkerMetrics
from shoal.wire.queue import ModelPulse, Unit
from shoal.worker.claims import Claims
from shoal.worker.service import Worker

from .conftest import CARD, StartWorker
from .scripted import ScriptedGateway, until

MB = 10**6


@pytest.fixture
def cards(tmp_path: Path) -> list[str]:
    return write_cards(tmp_path / "cards")


def write_cards(folder: Path, **changes: object) -> list[str]:
    """Three models of 60 MB each, whose runtime really holds them."""
    options = {"inputs": "text", "bytes": 60 * MB, "holds": True, "load_s": 0.2} | changes
    text = msgspec.json.encode(options).decode()
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.yaml").write_text(CARD.format(name=name, options=text, dim=8))
    return [str(folder)]


@contextlib.asynccontextmanager
async def demand(gateway: ScriptedGateway, model: str) -> AsyncIterator[None]:
    """Pulses that tell of some work for a model, and at the end that there is none any more."""

    async def pulse() -> None:
        while True:
            gateway.demand(model, 0.1)
            await asyncio.sleep(0.25)

    task = asyncio.create_task(pulse())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    gateway.demand(model, 0.0)


async def ask(gateway: ScriptedGateway, model: str) -> None:
    """One text for `model`, answered."""
    async with demand(gateway, model):
        unit = await gateway.publish(["fish"], model=model)
        assert (await gateway.reply(unit)).error is None


async def test_a_model_without_a_card_is_told_while_work_waits_for_it(
    start_worker: StartWorker,
    gateway: ScriptedGateway,
    cards: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strangers, "NO_CARD_S", 0.1)
    worker = await start_worker(catalog=cards, models=[])

    def told() -> ModelPulse | None:
        pulse = gateway.pulses.get(worker.id)
        return None if pulse is None else pulse.models.get("of-another-catalog")

    async with demand(gateway, "of-another-catalog"):
        await until(lambda: told() is not None)
    assert (said := told()) is not None
    assert (said.state, said.lanes, said.failures) == ("failed", 0, 0)
    assert "has no card of that name" in (said.reason or "")
    assert said.again_s > 0


async def test_files_that_are_not_here_are_fetched_before_room_is_made(
    start_worker: StartWorker, gateway: ScriptedGateway, cards: list[str]
) -> None:
    """A folder that is made after the start stands for a download."""
    folder = Path(cards[0])
    for name in ("late", "never"):
        card = (folder / "a.yaml").read_text().replace("name: a", f"name: {name}")
        card = card.replace("dir: .", f"dir: {folder / name}")
        (folder / f"{name}.yaml").write_text(card)
    worker = await start_worker(catalog=cards, models=[], memory_bytes=70 * MB)
    (folder / "late").mkdir()
    await ask(gateway, "a")
    async with demand(gateway, "never"):
        await until(lambda: worker.core.models["never"].state == "failed")
    assert "no such folder" in (worker.core.models["never"].reason or "")
    assert worker.core.lanes["cpu"].resident == {"a"}  # nobody made room for it
    await ask(gateway, "late")
    assert worker.core.lanes["cpu"].resident == {"late"}


async def test_a_model_is_loaded_on_demand_by_evicting_another(
    start_worker: StartWorker, gateway: ScriptedGateway, cards: list[str]
) -> None:
    worker = await start_worker(catalog=cards, models=[], memory_bytes=150 * MB)
    lane = worker.core.lanes["cpu"]
    for model in ("a", "b", "c"):
        await ask(gateway, model)
    (gone,) = {"a", "b", "c"} - lane.resident
    await ask(gateway, gone)
    assert gone in lane.resident
    assert len(lane.resident) == 2
    assert lane.memory.used == 120 * MB
    assert sum(loads(worker, model) for model in "abc") == 4

    def told() -> bool:
        model = gateway.pulses[worker.id].models.get(gone)
        return model is not None and model.state == "resident"

    await until(told)
    pulse = gateway.pulses[worker.id]
    assert pulse.memory["cpu"].held_bytes == 120 * MB
    assert (pulse.models[gone].bytes, pulse.memory["cpu"].budget_bytes) == (60 * MB, 150 * MB)
    assert pulse.models[gone].load_s >= 0.2


async def test_a_pinned_model_stays_while_others_take_turns(
    start_worker: StartWorker, gateway: ScriptedGateway, cards: list[str]
) -> None:
    worker = await start_worker(catalog=cards, models=["a"], memory_bytes=150 * MB)
    for model in ("b", "c", "b", "a"):
        await ask(gateway, model)
        assert "a" in worker.core.lanes["cpu"].resident


async def test_a_load_that_is_out_of_memory_evicts_and_is_tried_again(
    start_worker: StartWorker, gateway: ScriptedGateway, tmp_path: Path
) -> None:
    cards = write_cards(tmp_path / "cards", device_bytes=100 * MB)
    worker = await start_worker(catalog=cards, models=[], memory_bytes=500 * MB)
    await ask(gateway, "a")
    await ask(gateway, "b")
    assert worker.core.lanes["cpu"].resident == {"b"}


async def test_a_model_larger_than_the_budget_fails_with_both_sizes(
    start_worker: StartWorker, gateway: ScriptedGateway, cards: list[str]
) -> None:
    worker = await start_worker(catalog=cards, models=[], memory_bytes=50 * MB)
    reasons: list[str] = []

    def failed() -> bool:
        said = gateway.pulses[worker.id].models.get("a") if gateway.pulses else None
        reasons.append(said.reason or "" if said is not None else "")
        return bool(reasons[-1])

    async with demand(gateway, "a"):
        await until(failed)
    reason = reasons[-1]
    assert "60 MB" in reason
    assert "50 MB" in reason
    assert not worker.core.lanes["cpu"].resident


async def test_a_crowd_that_asks_three_workers_for_a_cold_model_causes_one_load(
    start_worker: StartWorker, gateway: ScriptedGateway, cards: list[str]
) -> None:
    workers = [
        await start_worker(catalog=cards, models=[], memory_bytes=150 * MB) for _ in range(3)
    ]
    await until(lambda: set(gateway.pulses) >= {worker.id for worker in workers})
    units = [await gateway.publish([f"fish {number}"], model="a") for number in range(200)]
    async with demand(gateway, "a"):
        assert len(await replies(gateway, units)) == 200
    assert sum(len(worker.core.lanes["cpu"].resident) for worker in workers) == 1
    assert sum(loads(worker, "a") for worker in workers) == 1


async def test_a_broken_model_is_tried_by_two_workers_and_given_up_by_all(
    start_worker: StartWorker, gateway: ScriptedGateway, tmp_path: Path
) -> None:
    cards = write_cards(tmp_path / "broken", load_error="the weights are torn")
    workers = [await start_worker(catalog=cards, models=[]) for _ in range(3)]
    await until(lambda: set(gateway.pulses) >= {worker.id for worker in workers})
    models = [worker.core.models["a"] for worker in workers]
    async with demand(gateway, "a"):
        await until(lambda: all(model.state == "failed" for model in models))
    assert sorted(model.failures for model in models) == [0, 1, 1]
    assert all("the weights are torn" in (model.reason or "") for model in models)


async def replies(gateway: ScriptedGateway, units: list[Unit]) -> set[str]:
    return {(await gateway.reply(unit)).unit for unit in units}


def loads(worker: Worker, model: str) -> float:
    name = f'shoal_worker_loads_total{{model="{model}",outcome="loaded"}}'
    lines = [line for line in worker.metrics.render()[0].decode().splitlines() if name in line]
    return sum(float(line.split()[-1]) for line in lines)


async def test_a_runtime_whose_memory_does_not_come_back_is_started_anew(
    start_worker: StartWorker, gateway: ScriptedGateway, cards: list[str]
) -> None:
    worker = await start_worker(catalog=cards, models=["a"], memory_bytes=150 * MB)
    old = worker._lanes._processes["cpu", "fake"].pid
    for rss in [100 * MB, *[200 * MB + 2 * SLACK_BYTES] * READINGS]:
        worker._loop.emit(ev.StatsSeen("cpu", "fake", rss, {"a": 60 * MB}))
    await until(lambda: worker.core.lanes["cpu"].runtimes["fake"].state == "stopping")
    await ask(gateway, "a")
    assert worker._lanes._processes["cpu", "fake"].pid != old
    assert 'shoal_worker_runtime_recycles_total{kind="fake",lane="cpu"} 1.0' in (
        worker.metrics.render()[0].decode()
    )


async def test_a_runtime_tells_what_it_holds_when_it_is_asked(
    start_worker: StartWorker, cards: list[str]
) -> None:
    worker = await start_worker(catalog=cards, models=["a"], memory_bytes=150 * MB)
    worker._lanes.ask_stats("cpu", "fake")
    runtime = worker.core.lanes["cpu"].runtimes["fake"]
    await until(lambda: runtime.rss_bytes > 60 * MB)


async def test_claims_of_a_worker_that_died_end_and_those_of_others_are_refused(
    broker: BrokerServer,
) -> None:
    connection = await Connection.open(CommonSettings(broker_url=broker.url), "claims")
    heard: dict[str, list[ev.Event]] = {"x": [], "y": []}
    x, y = (
        Claims(Bucket(connection, "claims"), "pool", name, WorkerMetrics(), heard[name].append)
        for name in ("x", "y")
    )
    x.claim("m", 1.0)
    await until(lambda: heard["x"] == [ev.Claimed("m")])
    y.claim("m", 60.0)
    await until(lambda: heard["y"] == [ev.ClaimRefused("m")])
    await x.close()

    def had() -> bool:
        if isinstance(heard["y"][-1], ev.ClaimRefused) and not y._last:
            y.claim("m", 60.0)
        return heard["y"][-1] == ev.Claimed("m")

    await until(had)
    y.claim("m", 60.0)  # renewed
    y.unclaim("m")
    y.claim("m", 60.0)
    await until(lambda: heard["y"].count(ev.Claimed("m")) == 3)
    await y.close()
    await connection.close()


async def test_without_a_broker_claims_are_refused(broker: BrokerServer) -> None:
    connection = await Connection.open(CommonSettings(broker_url=broker.url), "claims")
    heard: list[ev.Event] = []
    claims = Claims(Bucket(connection, "claims"), "pool", "x", WorkerMetrics(), heard.append)
    await broker.stop()
    claims.claim("m", 1.0)
    await until(lambda: heard == [ev.ClaimRefused("m")])
    await claims.close()
    await connection.close()
