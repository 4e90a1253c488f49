"""`python -m shoal.bench schemas`: random JSON schemas asked for through `shoal serve`, and what came held against them.

By the package jsonschema, formats included, which the server knows nothing of. Callers ask several at once
by OpenAI's route for chats. A text that was cut by its length is asked for again with more room.
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, Literal

import httpx
import msgspec
import orjson

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.schemas.drawn import Schema, schema
from shoal.bench.serving import Serving

#: The first nearly always suffices: few models write more when a grammar does not make them.
ROOM_TOKENS = (512, 1500)
_TIMEOUT_S = 600.0
#: Not the schema: what is as it says then is so by the grammar alone.
_TOLD = "Make up an example."


class Plan(msgspec.Struct, frozen=True):
    """How to measure."""

    model: Annotated[str, option("A model of the catalog that chats")] = "smollm2-135m-instruct"
    profile: Annotated[str, option("Of its card; else what suits the device")] = ""
    count: Annotated[int, option("Schemas")] = 200
    first: Annotated[int, option("Number of the first: others are other schemas")] = 0
    at_once: Annotated[int, option("Requests at once")] = 8
    threads: Annotated[int, option("Compute threads")] = 1


class Outcome(msgspec.Struct, frozen=True):
    """What came of one schema.

    Attributes:
        said: the text; of a refusal its message.
        wrong: what is not as the schema says; where a text was cut each time, that it is no JSON.
        asked: how often, with more room each time.
    """

    number: int
    came: Literal["valid", "invalid", "cut", "refused"]
    said: str
    wrong: str
    asked: int
    tokens: int
    seconds: float


class Result(report.Result, frozen=True):
    plan: Plan
    seconds: float
    outcomes: list[Outcome]

    @property
    def problems(self) -> list[str]:
        return [
            f"schema {one.number} is {one.came}: {one.wrong or one.said}\n"
            f"  {orjson.dumps(schema(one.number)).decode()}\n  {one.said}"
            for one in self.outcomes
            if one.came != "valid"
        ]


def measure(plan: Plan, tell: Tell) -> Result:
    """Ask for all of them. Raises `Unavailable` where `shoal serve` does not start."""
    settings: dict[str, Any] = {"profile": plan.profile} if plan.profile else {}
    with Serving([plan.model], threads=plan.threads, **settings) as serving:
        began = time.perf_counter()
        outcomes = asyncio.run(_all(plan, serving.url, tell))
        seconds = time.perf_counter() - began
    packages = ["llguidance", "jsonschema", "xllamacpp", "torch"]
    return Result(report.this_machine(packages), plan, seconds, outcomes)


async def _all(plan: Plan, url: str, tell: Tell) -> list[Outcome]:
    numbers = iter(range(plan.first, plan.first + plan.count))
    found: list[Outcome] = []

    async def caller() -> None:
        for number in numbers:
            one = await _one(client, plan.model, number)
            found.append(one)
            tell(f"{len(found)} of {plan.count}: schema {number} {one.came}, {one.tokens} tokens")

    async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S) as client:
        await asyncio.gather(*(caller() for _ in range(plan.at_once)))
    return sorted(found, key=lambda one: one.number)


async def _one(client: httpx.AsyncClient, model: str, number: int) -> Outcome:
    asked, tokens, began = schema(number), 0, time.perf_counter()
    for times, room in enumerate(ROOM_TOKENS, 1):
        answer = await _answer(client, _body(model, asked, number, room))
        body = answer.json()
        if answer.status_code != httpx.codes.OK:
            said = str(body["error"]["message"])
            return Outcome(number, "refused", said, "", times, tokens, time.perf_counter() - began)
        tokens += body["usage"]["completion_tokens"]
        said, cut = body["choices"][0]["message"]["content"], False
        if body["choices"][0]["finish_reason"] != "length":
            break
        cut = True
    wrong = mistake(asked, said)
    came: Literal["valid", "invalid", "cut"] = "cut" if cut else "invalid" if wrong else "valid"
    return Outcome(number, came, said, wrong, times, tokens, time.perf_counter() - began)


async def _answer(client: httpx.AsyncClient, body: dict[str, Any]) -> httpx.Response:
    """Asked for again while the server says that it has no room: that says nothing of a schema."""
    while True:
        answer = await client.post("/v1/chat/completions", json=body)
        if answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
            return answer
        await asyncio.sleep(float(answer.headers.get("retry-after", 1)))


def _body(model: str, asked: Schema, number: int, room: int) -> dict[str, Any]:
    return {
        "model": model,
        "messages": [{"role": "user", "content": _TOLD}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": asked, "strict": True},
        },
        "temperature": 1.0,
        "seed": number,
        "max_tokens": room,
    }


def mistake(asked: Schema, said: str) -> str:
    """What the first thing is that a schema does not allow in this text; empty where it allows all."""
    from jsonschema import Draft202012Validator

    try:
        value = orjson.loads(said)
    except orjson.JSONDecodeError as error:
        return f"no JSON: {error}"
    formats = Draft202012Validator.FORMAT_CHECKER
    found = next(Draft202012Validator(asked, format_checker=formats).iter_errors(value), None)
    return f"{found.json_path}: {found.message}" if found else ""


def table(result: Result) -> str:
    """How many came to what."""
    outcomes = result.outcomes
    kinds = ("valid", "invalid", "cut", "refused")
    row = [sum(one.came == kind for one in outcomes) for kind in kinds]
    again = sum(one.asked > 1 for one in outcomes)
    tokens = sum(one.tokens for one in outcomes)
    head = ["schemas", *kinds, "asked again with more room", "tokens", "seconds"]
    return report.table(head, [[len(outcomes), *row, again, tokens, result.seconds]])
