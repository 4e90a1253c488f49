"""`shoal demo`: start everything here, ask a real model for vectors, show what happened.

Talks to a `shoal serve` of its own as any user would: over HTTP, by the OpenAI route and by the
native one. It knows nothing of what runs behind.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.context import Running, api_key
from shoal.cli.demo_server import DemoFailed, server

if TYPE_CHECKING:
    import httpx
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console
    from rich.table import Table

SENTENCES = [
    "Sheep are crossing the road.",
    "Goats climb up the rocky slope.",
    "The invoice is due in May.",
    "Please pay before month's end.",
    "A planet orbits a distant star.",
    "They measured a galaxy's light.",
    "Boil the pasta for ten minutes.",
    "Simmer the sauce with garlic.",
]
#: Enough for a median that no longer moves, over in about a second.
TIMED_REQUESTS = 40
#: Names in the `Server-Timing` header, in the order of a request's way.
HOPS = {
    "queue": "on the JetStream queue",
    "prepare": "decoded and tokenized by the worker",
    "wait": "on the worker's shelf",
    "compute": "in the runtime",
}


def demo(
    model: Annotated[str, typer.Argument(help="A name, a folder or org/name.")] = (
        "all-MiniLM-L6-v2"
    ),
) -> None:
    """Start everything on this machine, embed a few sentences, show the way they took."""
    from rich.console import Console

    console = Console()
    with server(model, console) as running, _http(running) as http:
        name = running.models[0]
        vectors = _openai_route(http, name, console)
        _native_route(running, name, vectors, console)
        console.print(_neighbours(vectors))
        console.print(_timings(http, name))
    _next_steps(model, console)


def _http(running: Running) -> httpx.Client:
    import httpx

    key = api_key()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.Client(base_url=running.url, headers=headers, timeout=60)


def _openai_route(http: httpx.Client, model: str, console: Console) -> NDArray[np.float32]:
    import numpy as np

    body = _ask(http, model, SENTENCES).json()
    vectors = np.array([row["embedding"] for row in body["data"]], dtype=np.float32)
    tokens = body["usage"]["prompt_tokens"]
    console.print(
        f"[green]✓[/] POST /v1/embeddings, as OpenAI's clients do: "
        f"{len(SENTENCES)} sentences, {tokens} tokens → vectors {vectors.shape}",
        soft_wrap=True,
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

    from shoal import Client

    with Client(running.url, api_key=api_key()) as client:
        vectors = client.encode(model, SENTENCES)
    if not np.allclose(vectors, expected, atol=1e-4):
        raise DemoFailed("the native and the OpenAI route gave different vectors")
    console.print(
        f"[green]✓[/] POST /v1/encode/{model}, with shoal.Client: the same {vectors.shape}",
        soft_wrap=True,
    )


def _neighbours(vectors: NDArray[np.float32]) -> Table:
    import numpy as np
    from rich.table import Table

    likeness = vectors @ vectors.T
    np.fill_diagonal(likeness, -np.inf)
    table = Table("sentence", "nearest neighbour")
    table.add_column("cosine", justify="right")
    for row, best in enumerate(likeness.argmax(axis=1)):
        table.add_row(SENTENCES[row], SENTENCES[best], f"{likeness[row, best]:.2f}")
    return table


def _timings(http: httpx.Client, model: str) -> Table:
    from rich.table import Table

    seen: dict[str, list[float]] = {name: [] for name in (*HOPS, "rest", "client")}
    for number in range(TIMED_REQUESTS):
        started = time.perf_counter()
        answer = _ask(http, model, [SENTENCES[number % len(SENTENCES)]])
        spent = server_timing(answer.headers.get("Server-Timing", ""))
        seen["client"].append((time.perf_counter() - started) * 1000)
        seen["rest"].append(seen["client"][-1] - sum(spent.get(hop, 0.0) for hop in HOPS))
        for hop in HOPS:
            seen[hop].append(spent.get(hop, 0.0))
    told = {**HOPS, "rest": "HTTP, and between the processes", "client": "all, as the client sees"}
    table = Table("one short text", "spent", title=f"Medians of {TIMED_REQUESTS}, one at a time")
    table.add_column("ms", justify="right")
    for name, times in seen.items():
        table.add_row(name, told[name], f"{statistics.median(times):.2f}")
    return table


def server_timing(header: str) -> dict[str, float]:
    """Milliseconds by name, from a ``Server-Timing`` header (https://www.w3.org/TR/server-timing/)."""
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
    steps = {
        f"shoal serve {model}": "keep it running; it is in .venv/bin",
        f"shoal encode {model} 'a fish'": "a vector on the command line",
        "shoal generate smollm2-135m-instruct 'Name a fish.'": "text, as it comes",
        "shoal serve ./my-model": "any folder of a known architecture",
        f"shoal serve --explain {model}": "which runtime it ran in, and why",
        "make fleet": "fourteen models behind one server: rerankers, entities, OCR, speech",
        "make test": "everything CI checks",
        "docs/architecture.md": "what just happened, step by step",
    }
    console.print("\n[bold]Where to go next[/]")
    for step, what in steps.items():
        console.print(f"  [cyan]{step:<52}[/] {what}", highlight=False, soft_wrap=True)
