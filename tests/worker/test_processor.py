"""What is read of the processor time of a process, which computes, sleeps or is gone."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable

import pytest

from shoal.worker.processor import processor_s, seconds_of, told_by_ps

_BUSY = "while True: pass"
_IDLE = "import time; print(flush=True); time.sleep(600)"


@pytest.mark.parametrize("reads", [processor_s, told_by_ps])
async def test_it_goes_on_while_a_process_computes(
    reads: Callable[[int], Awaitable[float | None]],
) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _BUSY)
    try:
        first = await reads(process.pid)
        assert first is not None
        deadline = time.monotonic() + 60
        while (now := await reads(process.pid)) is not None and now < first + 1.0:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        assert now is not None
    finally:
        process.kill()
        await process.wait()
    assert await reads(process.pid) is None


async def test_it_stands_still_while_one_sleeps() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _IDLE, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        first = await processor_s(process.pid)
        begun = time.process_time()
        while time.process_time() < begun + 0.2:
            pass
        second = await processor_s(process.pid)
    finally:
        process.kill()
        await process.wait()
    assert first is not None and second is not None
    assert 0.0 <= second - first < 0.1


async def test_it_is_that_of_the_process_itself() -> None:
    before = time.process_time()
    told = await processor_s(os.getpid())
    assert told is not None
    assert before - 0.02 <= told <= time.process_time() + 0.02


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("00:00:07\n", 7.0),  # Linux
        ("  0:01.25\n", 1.25),  # macOS
        (" 12:01,5", 721.5),
        ("103:00.00", 6180.0),
        ("1:02:03.50", 3723.5),
        ("2-01:00:00", 176400.0),
        ("", None),
        ("TIME", None),
        ("1:2:3:4", None),
        ("x-00:00:01", None),
    ],
)
def test_what_ps_says_is_read(told: str, seconds: float | None) -> None:
    assert seconds_of(told) == seconds
