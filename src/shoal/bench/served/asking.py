"""Texts asked of a server over OpenAI's route for completions, streamed, so many at once.

Each over a connection of its own: llama.cpp's server closes those that were idle for some seconds, in which
the other side had its turn.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import msgspec
import orjson

from shoal.bench.failure import BenchFailed
from shoal.bench.processes import cpu_s, descendants

_TIMEOUT_S = 300.0
_DATA, _DONE = "data: ", "[DONE]"


class Text(msgspec.Struct, frozen=True):
    """One answer.

    Attributes:
        first_s: until its first piece, from when it was first asked for.
        prompt_tokens, tokens: that the server says it read and wrote.
        refused: how often the server had no room, and it was asked for again.
    """

    first_s: float
    prompt_tokens: int
    tokens: int
    said: str
    refused: int = 0


class Answers(msgspec.Struct, frozen=True):
    """Those of one turn, in the order of their prompts.

    Attributes:
        seconds: from the first's beginning to the last's end.
        cpu_s: processor time of all processes of the server meanwhile; it depends less than the rate on
            what else the machine does.
    """

    seconds: float
    texts: list[Text]
    cpu_s: float = 0.0

    @property
    def tokens(self) -> int:
        """Of all together, as they were written."""
        return sum(text.tokens for text in self.texts)

    @property
    def rate(self) -> float:
        """Tokens a second of all together."""
        return self.tokens / self.seconds


class Asked(msgspec.Struct, frozen=True):
    """A server, by its first process, and what it calls the model."""

    url: str
    pid: int
    model: str


async def ask(server: Asked, prompts: list[str], at_once: int, most: int) -> Answers:
    """All prompts, greedy, `most` tokens each at most. Raises `BenchFailed` where one fails."""
    found: dict[int, Text] = {}
    waiting = iter(enumerate(prompts))

    async def caller() -> None:
        for number, prompt in waiting:
            found[number] = await _one(client, _body(server.model, prompt, most))

    limits = httpx.Limits(max_keepalive_connections=0)
    processes = descendants(server.pid)
    async with httpx.AsyncClient(base_url=server.url, timeout=_TIMEOUT_S, limits=limits) as client:
        began, before_s = time.perf_counter(), cpu_s(processes)
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(caller())
        seconds = time.perf_counter() - began
    texts = [found[number] for number in range(len(prompts))]
    return Answers(seconds, texts, cpu_s(processes) - before_s)


def _body(model: str, prompt: str, most: int) -> dict[str, Any]:
    return {
        "model": model,
        "prompt": prompt,
        "max_tokens": most,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def _one(client: httpx.AsyncClient, body: dict[str, Any]) -> Text:
    """Asked for again, as clients do, where the server says that it has no room now."""
    began, refused = time.perf_counter(), 0
    while True:
        async with client.stream("POST", "/v1/completions", json=body) as answer:
            if answer.status_code == httpx.codes.OK:
                return msgspec.structs.replace(await _read(answer, began), refused=refused)
            told = (await answer.aread()).decode()
        if answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
            raise BenchFailed(f"{client.base_url}: {told[:500]}")
        refused += 1
        await asyncio.sleep(float(answer.headers.get("retry-after", 1)))


async def _read(answer: httpx.Response, began: float) -> Text:
    first_s = 0.0
    said: list[str] = []
    usage: dict[str, int] = {}
    async for line in answer.aiter_lines():
        if not line.startswith(_DATA) or line == _DATA + _DONE:
            continue
        event = orjson.loads(line[len(_DATA) :])
        if "error" in event:
            raise BenchFailed(f"{answer.url}: {event['error']}")
        usage = event.get("usage") or usage
        piece = "".join(choice["text"] for choice in event["choices"])
        if piece and not said:
            first_s = time.perf_counter() - began
        said += [piece] if piece else []
    if not usage:
        raise BenchFailed(f"{answer.url}: a stream ended without its usage")
    first_s = first_s or time.perf_counter() - began
    return Text(first_s, usage["prompt_tokens"], usage["completion_tokens"], "".join(said))
