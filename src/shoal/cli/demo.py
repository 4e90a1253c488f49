"""`shoal demo`: start everything here, ask a real model for vectors, show what happened.

Talks to a `shoal serve` of its own as any user would: over HTTP, by the OpenAI route and by the
native one. It knows nothing of what runs behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.context import Running, api_key, read_running
from shoal.errors import ShoalError

if TYPE_CHECKING:
    import httpx
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console

SENTENCES = [
    "A herd of sheep crosses the mountain road.",
    "The goats climbed up the rocky slope.",
    "Our invoice is due within thirty days.",
    "Payment must be made before the end of the month.",
    "The telescope found a planet around a distant star.",
    "Astronomers measured the light of another galaxy.",
    "Boil the pasta until it is just done.",
    "Simmer the tomato sauce with garlic and basil.",
]
#: Enough for a median that no longer moves, over in about a second.
TIMED_REQUESTS = 40
#: Downloading the model on a slow line is part of it.
START_S = 600.0
STOP_S = 45.0
HOPS = {
    "queue": "on the JetStream queue",
    "prepare": "tokenized by the worker",
    "wait": "on the worker's shelf",
    "compute": "in the PyTorch runtime",
    "total": "the gateway, all in all",
    "client": "seen by this client",
}


class DemoFailed(ShoalError):
    """The demo's server did not start or did not answer as it should."""

    code = "demo_failed"


def demo(
    model: Annotated[str, typer.Argument(help="What to serve.")] = "all-MiniLM-L6-v2",
) -> None:
    """Start everything on this machine, embed a few sentences, show the way they took."""
    from rich.console import Console

    console = Console()
    with _server(model, console) as running, _http(running) as http:
        vectors = _openai_route(http, model, console)
        _native_route(running, model, vectors, console)
        _neighbours(vectors, console)
        _timings(http, model, console)
    _next_steps(model, console)


@contextlib.contextmanager
def _server(model: str, console: Console) -> Iterator[Running]:
    """A `shoal serve` on a free port; its log is kept if it fails."""
    with tempfile.NamedTemporaryFile("w", prefix="shoal-demo-", suffix=".log", delete=False) as log:
        path = Path(log.name)
        command = [sys.executable, "-m", "shoal.cli", "serve", model, "--port", "0"]
        command += ["--log-format", "text"]
        server = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C comes to us; we stop it in good order
        )
    try:
        yield _wait_until_up(server, path, console)
    except BaseException:
        console.print(f"[red]✗[/] the server's log is {path}")
        raise
    finally:
        _stop(server, console)
    path.unlink()


def _wait_until_up(server: subprocess.Popen[bytes], log: Path, console: Console) -> Running:
    started = time.monotonic()
    with console.status("starting …") as status:
        while time.monotonic() - started < START_S:
            if server.poll() is not None:
                break
            for running in read_running():
                if running.pid == server.pid:
                    console.print(
                        f"[green]✓[/] broker, gateway, worker and runtime are up after "
                        f"{time.monotonic() - started:.1f} s: {running.url}"
                    )
                    return running
            status.update(_last_line(log) or "starting …")
            time.sleep(0.1)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    raise DemoFailed(f"the server did not start; the end of its log:\n{tail}")


def _last_line(log: Path) -> str:
    from rich.markup import escape

    lines = log.read_text(errors="replace").split("\n")
    return escape(next((line for line in reversed(lines) if line.strip()), "")[:100])


def _stop(server: subprocess.Popen[bytes], console: Console) -> None:
    with console.status("stopping …"):
        for number in (signal.SIGINT, signal.SIGINT):  # the second one does not wait for anything
            if server.poll() is None:
                os.kill(server.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(STOP_S)
    console.print("[green]✓[/] stopped; nothing is left running")


def _http(running: Running) -> httpx.Client:
    import httpx

    key = api_key()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.Client(base_url=running.url, headers=headers, timeout=60)


def _openai_route(http: httpx.Client, model: str, console: Console) -> NDArray[np.float32]:
    import numpy as np

    body = _ask(http, model, SENTENCES).json()
    vectors = np.array([row["embedding"] for row in body["data"]], dtype=np.float32)
    console.print(
        f"[green]✓[/] POST /v1/embeddings (OpenAI): {len(SENTENCES)} sentences, "
        f"{body['usage']['prompt_tokens']} tokens → vectors {vectors.shape}"
    )
    return vectors


def _ask(http: httpx.Client, model: str, texts: list[str]) -> httpx.Response:
    answer = http.post("/v1/embeddings", json={"model": model, "input": texts})
    if answer.status_code != 200:
        raise DemoFailed(f"/v1/embeddings answered {answer.status_code}: {answer.text[:500]}")
    return answer


def _native_route(
    running: Running, model: str, expected: NDArray[np.float32], console: Console
) -> None:
    import numpy as np

    from shoal.client import Client

    with Client(running.url, api_key=api_key()) as client:
        vectors = client.encode(model, SENTENCES)
    same = float(np.abs(np.asarray(vectors) - expected).max())
    console.print(
        f"[green]✓[/] POST /v1/encode/{model} (native, MessagePack): vectors {vectors.shape}, "
        f"the same within {same:.0e}"
    )


def _neighbours(vectors: NDArray[np.float32], console: Console) -> None:
    import numpy as np
    from rich.table import Table

    likeness = vectors @ vectors.T
    np.fill_diagonal(likeness, -np.inf)
    table = Table("sentence", "its nearest neighbour", "cosine", title="Nearest neighbours")
    for row, best in enumerate(likeness.argmax(axis=1)):
        table.add_row(SENTENCES[row], SENTENCES[best], f"{likeness[row, best]:.2f}")
    console.print(table)


def _timings(http: httpx.Client, model: str, console: Console) -> None:
    from rich.table import Table

    seen: dict[str, list[float]] = {hop: [] for hop in HOPS}
    for number in range(TIMED_REQUESTS):
        started = time.perf_counter()
        answer = _ask(http, model, [SENTENCES[number % len(SENTENCES)]])
        seen["client"].append((time.perf_counter() - started) * 1000)
        for hop, ms in server_timing(answer.headers.get("Server-Timing", "")).items():
            if hop in seen:
                seen[hop].append(ms)
    table = Table(
        "hop",
        "",
        "median ms",
        title=f"Where the time of one short text went "
        f"({TIMED_REQUESTS} requests, one after the other)",
    )
    for hop, times in seen.items():
        if times:
            table.add_row(hop, HOPS[hop], f"{statistics.median(times):.2f}")
    console.print(table)


def server_timing(header: str) -> dict[str, float]:
    """Milliseconds by name, from a ``Server-Timing`` header (W3C Server Timing)."""
    found: dict[str, float] = {}
    for entry in header.split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key == "dur":
                with contextlib.suppress(ValueError):
                    found[name] = float(value)
    return found


def _next_steps(model: str, console: Console) -> None:
    steps: dict[str, Any] = {
        f"shoal serve {model}": "keep it running (in .venv/bin)",
        "shoal serve ./my-model": "a Hugging Face folder, or org/name, without a card",
        f"shoal encode {model} 'a fish'": "a vector on the command line",
        "make test": "everything CI checks",
        "docs/architecture.md": "what just happened, step by step",
    }
    console.print("\n[bold]Where to go next[/]")
    for step, what in steps.items():
        console.print(f"  [cyan]{step:<36}[/] {what}", highlight=False)
