"""Tasks that run beside everything else for as long as a process lives."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def background(
    work: Coroutine[Any, Any, None], among: set[asyncio.Task[None]] | None = None
) -> asyncio.Task[None]:
    """Run `work`, kept `among` others until it ends; if it fails, the loop's exception handler is told at once.

    Whoever keeps the task and never awaits it would else keep its error a secret too.
    """
    task = asyncio.create_task(work)
    task.add_done_callback(_tell)
    if among is not None:
        among.add(task)
        task.add_done_callback(among.discard)
    return task


def _tell(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        name = getattr(task.get_coro(), "__qualname__", task.get_name())
        context = {"message": f"{name} failed", "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)
