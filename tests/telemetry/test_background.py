"""What fails in the background is heard."""

from __future__ import annotations

import asyncio
from typing import Any

from shoal.telemetry.background import background


async def test_a_failure_reaches_the_loop_s_exception_handler() -> None:
    heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.put_nowait(context))

    async def fail() -> None:
        raise ValueError("no")

    async def wait() -> None:
        await asyncio.Event().wait()

    ended, failed = background(wait()), background(fail())
    ended.cancel()
    context = await asyncio.wait_for(heard.get(), 30)
    assert context["message"].endswith("fail failed")
    assert context["exception"] is failed.exception()
    assert heard.empty()
