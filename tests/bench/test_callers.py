import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from shoal.bench.callers import Callers, Tally, added
from shoal.bench.questions import Kind, expected, texts

from .tcp import serving

Respond = Callable[[list[str]], list[tuple[int, object]]]


def right(texts: list[str]) -> dict[str, object]:
    return {"items": [{"dense": [float(x) for x in expected(text)]} for text in texts]}


@asynccontextmanager
async def gateway(respond: Respond) -> AsyncIterator[str]:
    """Sends what `respond` says to each request; nothing: ends the connection."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.read(65536):
            answers = respond(json.loads(head.partition(b"\r\n\r\n")[2])["items"])
            for status, body in answers:
                data = json.dumps(body).encode()
                length = f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n"
                writer.write(f"{length}Retry-After: 0.01\r\n\r\n".encode() + data)
            if not answers:
                break

    async with serving(handle) as port:
        yield f"http://127.0.0.1:{port}"


async def called(*responds: Respond, retry: bool = False, requests: int = 4) -> Tally:
    async with gateway(responds[0]) as one, gateway(responds[-1]) as other:
        callers = Callers([one, other], "p", retry=retry, kinds=[Kind("texts", 2, texts)])
        await callers.run(lambda: callers.requests >= requests)
        return callers.tallies["texts"]


def well(texts: list[str]) -> list[tuple[int, object]]:
    return [(200, right(texts))]


async def test_right_answers_are_counted() -> None:
    tally = await called(well, requests=20)
    assert tally.requests == tally.answered >= 20
    assert (tally.wrong, tally.unasked, tally.broken) == (0, 0, 0)


@pytest.mark.parametrize(
    "answer",
    [
        lambda texts: [(200, right([text + "!" for text in texts]))],
        lambda texts: [(200, right([*texts, "more"]))],
        lambda texts: [(200, {"items": [{"error": {"code": "x"}} for _ in texts]})],
    ],
)
async def test_an_answer_to_something_else_is_wrong(answer: Respond) -> None:
    tally = await called(answer)
    assert tally.wrong == tally.answered == tally.requests


async def test_a_second_answer_is_seen() -> None:
    tally = await called(lambda texts: [(200, right(texts))] * 2)
    assert tally.unasked > 0


ERROR = {"error": {"code": "unavailable", "message": "away", "retryable": True}}
FATAL = {"error": {"code": "invalid", "message": "no", "retryable": False}}


async def test_only_callers_that_may_ask_again_do() -> None:
    seen: set[str] = set()

    def second_time(texts: list[str]) -> list[tuple[int, object]]:
        first = texts[0] not in seen
        seen.add(texts[0])
        return [(503, ERROR)] if first else well(texts)

    tally = await called(second_time, retry=True)
    assert tally.answered == tally.requests == tally.retries
    seen.clear()
    tally = await called(second_time)
    assert (tally.answered, tally.failures["unavailable: away"]) == (0, tally.requests)
    tally = await called(lambda texts: [(400, FATAL)], retry=True)
    assert (tally.answered, tally.failures["invalid: no"]) == (0, tally.requests)


async def test_a_broken_connection_is_asked_again_at_the_other_gateway() -> None:
    tally = await called(lambda texts: [], well, retry=True)
    assert tally.answered == tally.requests
    assert tally.broken > 0


def test_tallies_add_up() -> None:
    one = Tally(requests=3, answered=2, wrong=1, failures=Counter(a=1), slowest_s=2.0)
    other = Tally(requests=4, answered=4, unasked=1, retries=2, broken=3, dead=1, slowest_s=1.0)
    assert added([one, other]) == Tally(7, 6, 1, 1, 2, 3, 1, Counter(a=1), 2.0)
