"""The `shoal serve` that the demo starts, watches until it is ready, and stops again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.broker.orphans import dying_with_us
from shoal.cli.context import Running, read_running
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from rich.console import Console

#: Downloading the model on a slow line is part of it.
START_S = 600.0
STOP_S = 45.0
POLL_S = 0.1
TAIL_LINES = 15


class DemoFailed(ShoalError):
    """The demo's server did not start or did not answer as it should."""

    code = "demo_failed"


@contextlib.contextmanager
def server(model: str, console: Console) -> Iterator[Running]:
    """Serve `model` on a free port. Its log is kept if anything fails. Raises `DemoFailed`."""
    handle, name = tempfile.mkstemp(prefix="shoal-demo-", suffix=".log")
    log = Path(name)
    with os.fdopen(handle, "wb") as file:
        process = subprocess.Popen(
            [*_SERVE, model],
            stdout=file,
            stderr=file,
            stdin=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C comes to us, and we stop it in good order
            preexec_fn=dying_with_us(signal.SIGKILL),
        )
    try:
        yield _wait_until_up(process, log, console)
    except BaseException:
        console.print(f"[red]✗[/] the server's log is {log}", soft_wrap=True)
        raise
    finally:
        _stop(process, console)
    log.unlink()


_SERVE = [sys.executable, "-m", "shoal", "serve", "--port", "0", "--log-format", "text"]


def _wait_until_up(process: subprocess.Popen[bytes], log: Path, console: Console) -> Running:
    started = time.monotonic()
    with console.status("starting …") as status:
        while process.poll() is None and time.monotonic() - started < START_S:
            for running in read_running():
                if running.pid == process.pid:
                    took_s = time.monotonic() - started
                    what = "broker, gateway, worker and runtime are up"
                    console.print(f"[green]✓[/] {what} after {took_s:.1f} s", highlight=False)
                    return running
            status.update(_last_line(log) or "starting …")
            time.sleep(POLL_S)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-TAIL_LINES:])
    raise DemoFailed(f"the server did not start; the end of its log:\n{tail}")


def _last_line(log: Path) -> str:
    from rich.markup import escape

    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return escape(lines[-1][:100]) if lines else ""


def _stop(process: subprocess.Popen[bytes], console: Console) -> None:
    with console.status("stopping …"):
        for _ in ("in good order", "at once"):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_S)
    console.print("[green]✓[/] stopped; nothing is left running")
