"""Fetching: payloads that come late, never, or too many at once. A real store in a folder."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from shoal.broker.payloads import Payloads
from shoal.errors import ConfigError, PayloadMissing, ShoalError
from shoal.settings import WorkerSettings
from shoal.values import EncodeParams
from shoal.wire.queue import Payload, Unit
from shoal.worker.payloads import Contents, Fetching, Room

SETTINGS = WorkerSettings(payload_wait_s=60.0, payload_held_bytes=1000)


def unit(name: str, **payloads: int) -> Unit:
    """Items: one on the queue, then the payloads, key -> bytes."""
    where = {n: Payload(key, size) for n, (key, size) in enumerate(payloads.items(), 1)}
    items = [b'"here"', *[b""] * len(where)]
    params = EncodeParams()
    return Unit(name, name, "m", "encode", params, "json", items, 9.0, "r", payloads=where)


class Got:
    """What was handed on, by unit."""

    def __init__(self, fetching: Fetching) -> None:
        self.fetching = fetching
        self.contents: dict[str, Contents] = {}

    def fetch(self, wanted: Unit) -> None:
        self.fetching.fetch(wanted, lambda contents: self.contents.update({wanted.id: contents}))

    async def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.002)


@pytest.fixture
def store(tmp_path: Path) -> Payloads:
    return Payloads((tmp_path / "payloads").as_uri())


@pytest.fixture
def got(store: Payloads) -> Got:
    return Got(Fetching(store, SETTINGS))


def read(contents: Contents) -> list[bytes | str]:
    return [c.code if isinstance(c, ShoalError) else bytes(c) for c in contents]


async def test_a_unit_without_payloads_goes_on_at_once(got: Got) -> None:
    got.fetch(unit("u"))
    assert read(got.contents["u"]) == [b'"here"']


async def test_items_keep_their_places(got: Got, store: Payloads) -> None:
    await store.put("a", b'"one"')
    await store.put("b", b'"two"')
    got.fetch(unit("u", a=5, b=5))
    await got.until(lambda: "u" in got.contents)
    assert read(got.contents["u"]) == [b'"here"', b'"one"', b'"two"']
    assert got.fetching.room.held_bytes == 10
    got.fetching.release("u")
    got.fetching.release("u")
    assert got.fetching.room.held_bytes == 0


async def test_a_payload_on_its_way_is_waited_for(got: Got, store: Payloads) -> None:
    got.fetch(unit("u", late=6))
    await asyncio.sleep(0.05)
    assert not got.contents
    assert got.fetching.room.held_bytes == 0, "waiting takes no room from others"
    await store.put("late", b'"late"')
    await got.until(lambda: "u" in got.contents)
    assert read(got.contents["u"])[1] == b'"late"'


async def test_a_payload_that_never_comes_is_its_items_error(store: Payloads) -> None:
    got = Got(Fetching(store, msgspec.structs.replace(SETTINGS, payload_wait_s=0.3)))
    await store.put("b", b'"two"')
    got.fetch(unit("u", never=5, b=5))
    await got.until(lambda: "u" in got.contents)
    error = got.contents["u"][1]
    assert isinstance(error, PayloadMissing)
    assert error.retryable
    assert "within 0.3 s: try again" in error.message
    assert read(got.contents["u"])[2] == b'"two"', "its neighbours are there"


async def test_a_worker_without_a_store_names_the_setting() -> None:
    got = Got(Fetching(Payloads(None), SETTINGS))
    got.fetch(unit("u", a=5))
    await got.until(lambda: "u" in got.contents)
    error = got.contents["u"][1]
    assert isinstance(error, ConfigError)
    assert "payload_url is not set" in error.message


async def test_no_more_is_held_than_is_allowed(got: Got, store: Payloads) -> None:
    for number in range(10):
        await store.put(f"k{number}", b"x" * 400)
        got.fetch(unit(f"u{number}", **{f"k{number}": 400}))
    await got.until(lambda: len(got.contents) == 2)
    await asyncio.sleep(0.05)
    assert len(got.contents) == 2
    seen = 2
    while seen < 10:
        got.fetching.release(f"u{seen - 2}")
        seen += 1
        await got.until(lambda: len(got.contents) == seen)  # noqa: B023
        assert got.fetching.room.held_bytes <= 1000


async def test_units_of_several_payloads_never_wait_for_each_other(
    got: Got, store: Payloads
) -> None:
    """Any three of these fit, any four do not."""
    for name in ("a", "b"):
        for number in (1, 2):
            await store.put(f"{name}{number}", b"x" * 300)
        got.fetch(unit(name, **{f"{name}1": 300, f"{name}2": 300}))
    await got.until(lambda: len(got.contents) == 1)
    got.fetching.release(next(iter(got.contents)))
    await got.until(lambda: len(got.contents) == 2)


async def test_one_that_is_larger_than_all_the_room_comes_alone(got: Got, store: Payloads) -> None:
    await store.put("small", b"x" * 10)
    await store.put("huge", b"x" * 5000)
    got.fetch(unit("a", small=10))
    await got.until(lambda: "a" in got.contents)
    got.fetch(unit("b", huge=5000))
    await asyncio.sleep(0.05)
    assert "b" not in got.contents
    got.fetching.release("a")
    await got.until(lambda: "b" in got.contents)


async def test_a_unit_that_leaves_gives_back_its_place_and_its_room(
    got: Got, store: Payloads
) -> None:
    for key in ("a", "b", "c"):
        await store.put(key, b"x" * 800)
        got.fetch(unit(key, **{key: 800}))
    await got.until(lambda: "a" in got.contents)
    got.fetching.release("b")  # it waits for room
    got.fetching.release("a")
    await got.until(lambda: "c" in got.contents)
    assert "b" not in got.contents
    got.fetching.release("c")
    assert got.fetching.room.held_bytes == 0


async def test_room_taken_in_the_moment_of_a_cancel_is_given_back() -> None:
    room = Room(10)
    await room.take(10)
    waiting = asyncio.create_task(room.take(5))
    await asyncio.sleep(0)
    room.give(10)  # admits it
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert room.held_bytes == 0
