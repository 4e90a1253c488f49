"""One set of tests for every store: a folder, and S3 as moto's server process speaks it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.broker.payload_files import PARTIAL
from shoal.broker.payloads import Payloads
from shoal.errors import ConfigError, PayloadMissing, Unavailable
from tests.broker.s3 import S3, s3_server

DATA = os.urandom(3_000_000)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=["file", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "file":
        return (tmp_path / "a folder" / "payloads").as_uri()
    s3: S3 = request.getfixturevalue("s3")
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return s3.new_bucket() + "/in/flight"


async def test_a_payload_comes_back_as_it_was(url: str) -> None:
    store = Payloads(url)
    await store.put("g1-1.0.0", memoryview(DATA)[1000:])
    await store.put("g1-1.0.1", b"")
    assert bytes(await store.get("g1-1.0.0")) == DATA[1000:]
    assert bytes(await store.get("g1-1.0.1")) == b""
    assert bytes(await Payloads(url).get("g1-1.0.0")) == DATA[1000:], "another process sees it"


async def test_what_is_not_there_is_missing_and_may_be_deleted(url: str) -> None:
    store = Payloads(url)
    with pytest.raises(PayloadMissing, match="not in the payload store"):
        await store.get("g1-1.0.0")
    await store.put("g1-1.0.0", b"x")
    await store.delete(["g1-1.0.0", "never-was"])
    await store.delete(["g1-1.0.0"])
    with pytest.raises(PayloadMissing):
        await store.get("g1-1.0.0")


async def test_a_sweep_takes_what_is_older_and_nothing_else(url: str) -> None:
    store = Payloads(url)
    for number in range(20):
        await store.put(f"g1-{number}.0.0", b"old")
    written = time.monotonic()
    assert await store.sweep(60.0) == 0
    # Stores stamp in whole seconds.
    while time.monotonic() < written + 2.1:
        await asyncio.sleep(0.05)
    await store.put("g1-new.0.0", b"new")
    assert await store.sweep(1.1) == 20
    assert bytes(await store.get("g1-new.0.0")) == b"new"
    assert await store.sweep(60.0) == 0


async def test_a_sweep_goes_by_the_clock_of_the_store(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Payloads(url)
    await store.put("g1-1.0.0", b"in flight")
    ahead = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: ahead)
    assert await store.sweep(60.0) == 0
    assert bytes(await store.get("g1-1.0.0")) == b"in flight"


async def test_readers_never_see_half_a_payload(url: str) -> None:
    store = Payloads(url)
    sizes = set()

    async def read(until: asyncio.Task[None]) -> None:
        while not until.done():
            try:
                sizes.add(len(await store.get("k")))
            except PayloadMissing:
                sizes.add(-1)

    async def write() -> None:
        for size in (1_000_000, 3_000_000, 2_000_000):
            await store.put("k", memoryview(DATA)[:size])

    writing = asyncio.create_task(write())
    await asyncio.gather(writing, read(writing))
    assert sizes <= {-1, 1_000_000, 2_000_000, 3_000_000}


async def test_a_crash_while_writing_leaves_what_the_sweep_finds(tmp_path: Path) -> None:
    folder = tmp_path / "payloads"
    store = Payloads(folder.as_uri())
    assert await store.sweep(0.0) == 0
    partial = folder / f"g1-1.0.0.abcd{PARTIAL}"
    partial.write_bytes(b"half")
    os.utime(partial, (0, 0))
    assert await store.sweep(60.0) == 1
    assert list(folder.iterdir()) == []


async def test_files_are_for_nobody_else(tmp_path: Path) -> None:
    folder = tmp_path / "payloads"
    await Payloads(folder.as_uri()).put("k", b"secret")
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / "k").stat().st_mode & 0o077 == 0


async def test_a_large_payload_does_not_hold_up_the_loop(tmp_path: Path) -> None:
    """Neither a put nor a get copies on the event loop: 64 MB would take 28 ms."""
    store = Payloads((tmp_path / "payloads").as_uri())
    data = memoryview(bytearray(64_000_000))
    slept: list[float] = []

    async def tick(until: asyncio.Task[None]) -> None:
        while not until.done():
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            slept.append(time.perf_counter() - before)

    async def move() -> None:
        await store.put("k", data)
        assert len(await store.get("k")) == len(data)

    moving = asyncio.create_task(move())
    await asyncio.gather(moving, tick(moving))
    slept.sort()
    assert len(slept) > 5, "the loop went on"
    assert slept[len(slept) // 2] < 0.02


def test_the_kind_of_store_is_checked_at_once() -> None:
    with pytest.raises(ConfigError, match=r"must begin with one of file://.*mean 's3'"):
        Payloads("s4://bucket")
    with pytest.raises(ConfigError, match="absolute path"):
        Payloads("file://relative")
    with pytest.raises(ConfigError, match="names no bucket"):
        Payloads("s3:///prefix")
    with pytest.raises(ConfigError, match="more than a bucket"):
        Payloads("s3://bucket/prefix?region=x")


async def test_without_a_store_only_its_use_fails() -> None:
    store = Payloads(None)
    assert not store.configured
    with pytest.raises(ConfigError, match="payload_url is not set"):
        await store.put("k", b"x")


@pytest.mark.parametrize(
    ("url", "environ", "told"),
    [
        ("az://c", {}, "Account must be specified; set AZURE_STORAGE_ACCOUNT_NAME and"),
        ("gs://b", {"GOOGLE_APPLICATION_CREDENTIALS": "/etc/passwd"}, "set GOOGLE_APPLICATION_"),
        ("s3://b", {"AWS_ACCESS_KEY_ID": "x"}, "Missing SecretAccessKey; set AWS_ACCESS_KEY_ID"),
        ("s3://b", {"AWS_ALLOW_HTTP": "maybe"}, '"maybe"'),
        ("s3://a b", {}, "cannot be opened"),
    ],
)
def test_an_object_store_that_cannot_be_opened_says_why_at_once(
    monkeypatch: pytest.MonkeyPatch, url: str, environ: dict[str, str], told: str
) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"payload_url '{url}' .*{told}"):
        Payloads(url)


async def test_a_folder_that_refuses_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match=r"does not take a payload: (Not a dir|File exists)"):
        await Payloads((tmp_path / "file").as_uri()).put("k", b"x")


async def test_a_server_that_is_away_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as server:
        url = server.new_bucket()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("shoal.broker.payloads.TRANSFER_S", 1.0)
    with pytest.raises(Unavailable, match="does not give a payload"):
        await Payloads(url).get("k")


async def test_a_bucket_that_is_not_there_is_unavailable(
    s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Unavailable, match="make its bucket or folder"):
        await Payloads("s3://nobody-made-this").put("k", b"x")


def test_the_library_of_object_stores_is_loaded_only_where_one_is_named() -> None:
    code = (
        "import sys, shoal, shoal.gateway.service, shoal.worker.main;"
        "from shoal.broker.payloads import Payloads;"
        "Payloads('file:///dir'); print('obstore' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert result.stdout.strip() == "False", result.stderr
