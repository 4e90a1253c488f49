"""Texts that are generated, whole and as streams, through both clients, over real sockets."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import shoal
from shoal.client import Generation, Limits
from shoal.client.stream import Reader
from shoal.errors import (
    ComputeFailed,
    InvalidItem,
    ProtocolError,
    StreamBroken,
    Unavailable,
    UnknownModel,
)
from shoal.wire.objects import Alternative, TokenLogprob
from tests.client.conftest import Ask
from tests.client.scripted import (
    Response,
    ScriptedGateway,
    generated,
    item_error,
    packed,
    refuses,
    says,
)

M = "a-model"
HELLO = [{"role": "user", "content": "Hello"}]


def test_texts_come_in_order(ask: Ask, gateway: ScriptedGateway) -> None:
    texts = ask(
        lambda c: c.generate("org/m", ["7", "8", [1, 2]], max_tokens=9, seed=None, stop="x"),
        limits=Limits(request_items=2, in_flight=1),
    )
    assert [text.text for text in texts] == ["7!", "8!", "[1, 2]!"]
    assert texts[0] == Generation("7!", "stop", 2, 3)
    assert gateway.seen[0].path == "/v1/generate/org/m"
    assert gateway.seen[0].body == {
        "params": {"max_tokens": 9, "stop": "x"},
        "items": ["7", "8"],
    }


@pytest.mark.parametrize(
    ("given", "items"),
    [
        ("a", ["a"]),
        (HELLO, [{"messages": HELLO}]),
        ({"messages": HELLO}, [{"messages": HELLO}]),
        ([HELLO, HELLO], [{"messages": HELLO}] * 2),
        ([{"messages": HELLO}], [{"messages": HELLO}]),
    ],
)
def test_a_text_or_a_conversation_may_stand_by_itself(
    ask: Ask, gateway: ScriptedGateway, given: Any, items: Any
) -> None:
    assert len(ask(lambda c: c.generate(M, given))) == len(items)
    assert gateway.seen[0].body["items"] == items


@pytest.mark.parametrize(
    "given",
    [7, [7], [{"message": "a"}], {"messages": []}, [{"messages": "a"}], [[{"role": object()}]]],
)
def test_what_is_no_prompt_is_refused_before_it_is_sent(
    ask: Ask, gateway: ScriptedGateway, given: Any
) -> None:
    with pytest.raises((InvalidItem, TypeError)):
        ask(lambda c: c.generate(M, given))
    assert gateway.seen == []


def test_few_texts_go_in_one_request(ask: Ask, gateway: ScriptedGateway) -> None:
    ask(lambda c: c.generate(M, ["1"] * 20))
    assert sorted(len(seen.body["items"]) for seen in gateway.seen) == [4, 8, 8]


def test_details_and_errors(ask: Ask, gateway: ScriptedGateway) -> None:
    call = {"name": "weather", "arguments": "{}"}
    text = generated("hello") | {"tool_calls": [call], "reasoning": "Greet."}
    body = {"items": [item_error("compute_failed", "no"), text]}
    gateway.script.append(says(packed(body)))
    found = ask(lambda c: c.generate_detailed(M, ["a", "b"]))
    assert [t.text for t in found.texts] == ["hello"]
    assert found.texts[0].tool_calls == [shoal.client.ToolCall("weather", "{}")]
    assert found.positions.tolist() == [1]
    assert found.tokens.tolist() == [0, 2]
    gateway.script.append(says(packed(body)))
    with pytest.raises(ComputeFailed, match=r"items\[0\]: no"):
        ask(lambda c: c.generate(M, ["a", "b"]))
    gateway.script.append(says(packed({"items": [{"text": "no end"}]})))
    with pytest.raises(ProtocolError, match="neither an end nor an error"):
        ask(lambda c: c.generate(M, "a"))


def test_an_option_that_is_none_is_a_type_error(ask: Ask, gateway: ScriptedGateway) -> None:
    with pytest.raises(TypeError, match="no option temprature"):
        ask(lambda c: c.generate(M, "a", temprature=1))


def test_there_is_more_time_to_generate(ask: Ask, gateway: ScriptedGateway) -> None:
    ask(lambda c: c.generate(M, "1"))
    ask(lambda c: c.encode(M, "1"))
    first, second = (float(seen.headers["x-request-timeout"]) for seen in gateway.seen)
    assert (first, second) == (300.0, 60.0)


# --- streams --------------------------------------------------------------------------------------

EVENTS: list[dict[str, Any]] = [
    {"model": M},
    {"item": 0, "text": "Once "},
    {"item": 0, "text": "upon"},
    {"item": 0, "text": "", "finish": "stop", "prompt_tokens": 3, "new_tokens": 2},
    {"usage": {"tokens": 3, "new_tokens": 2}},
]


def streamed(*events: dict[str, Any]) -> Response:
    body = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)
    return Response(200, body, {"content-type": "text/event-stream"})


def stream(client: shoal.Client, *args: Any, **options: Any) -> tuple[list[str], Generation]:
    with client.stream(*args, **options) as pieces:
        return list(pieces), pieces.generation


async def astream(client: shoal.AsyncClient, *args: Any, **options: Any) -> Any:
    async with await client.stream(*args, **options) as pieces:
        return [piece async for piece in pieces], pieces.generation


def both(gateway: ScriptedGateway, *args: Any, **options: Any) -> tuple[list[str], Generation]:
    """What both clients give, which is the same."""
    step = gateway.script[0] if gateway.script else None
    if step is not None:
        gateway.script.append(step)
    with shoal.Client(gateway.url, retries=0) as client:
        first = stream(client, *args, **options)

    async def again() -> Any:
        async with shoal.AsyncClient(gateway.url, retries=0) as client:
            return await astream(client, *args, **options)

    assert asyncio.run(again()) == first
    return first


def test_pieces_and_the_whole(gateway: ScriptedGateway) -> None:
    gateway.script.append(says(streamed(*EVENTS)))
    pieces, whole = both(gateway, M, HELLO, max_tokens=2)
    assert pieces == ["Once ", "upon"]
    assert whole == Generation("Once upon", "stop", 3, 2)
    assert gateway.seen[0].body == {
        "params": {"max_tokens": 2},
        "items": [{"messages": HELLO}],
        "stream": True,
    }


def test_a_refusal_is_raised_before_anything_comes(gateway: ScriptedGateway) -> None:
    for _ in range(2):
        gateway.script.append(refuses(404, "unknown_model", "there is no such model"))
    with shoal.Client(gateway.url) as client, pytest.raises(UnknownModel, match="no such"):
        client.stream(M, "a")

    async def again() -> None:
        async with shoal.AsyncClient(gateway.url) as client:
            await client.stream(M, "a")

    with pytest.raises(UnknownModel, match="no such"):
        asyncio.run(again())


def test_a_busy_gateway_is_asked_again(gateway: ScriptedGateway) -> None:
    gateway.script += [
        refuses(429, "overloaded", "later", retryable=True),
        says(streamed(*EVENTS)),
    ]
    with shoal.Client(gateway.url) as client:
        assert stream(client, M, "a")[0] == ["Once ", "upon"]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_stream_that_ends_early_is_told(gateway: ScriptedGateway, count: int) -> None:
    gateway.script.append(says(streamed(*EVENTS[:count])))
    with (
        shoal.Client(gateway.url) as client,
        client.stream(M, "a") as pieces,
        pytest.raises(Unavailable, match="broke off"),
    ):
        list(pieces)


def test_an_error_in_a_stream_is_raised(gateway: ScriptedGateway) -> None:
    error = {"error": {"code": "stream_broken", "message": "void", "retryable": True}}
    gateway.script.append(says(streamed(*EVENTS[:2], error)))
    with shoal.Client(gateway.url) as client, client.stream(M, "a") as pieces:
        told = iter(pieces)
        assert next(told) == "Once "
        with pytest.raises(StreamBroken, match="void"):
            next(told)


def test_events_come_a_byte_at_a_time_with_comments_between() -> None:
    half = {"text": "", "bytes": [240, 159], "logprob": -1.0}
    told = {"text": "Ü", "bytes": [195, 156], "logprob": -0.5}
    told["top"] = [{"text": "U", "bytes": [85], "logprob": -2.0}]
    events = [
        {"item": 0, "text": "Ü", "logprobs": [told]},
        {"item": 0, "text": "", "logprobs": [half], **EVENTS[3]},
        EVENTS[4],
    ]
    body = b": still at it\n\n" + b"".join(
        b"data: %b\n\n" % json.dumps(event, ensure_ascii=False).encode() for event in events
    )
    reader = Reader()
    pieces = [piece for n in range(len(body)) for piece in reader.add(body[n : n + 1])]
    assert pieces == ["Ü"]
    assert reader.whole.logprobs == [
        TokenLogprob("Ü", b"\xc3\x9c", -0.5, [Alternative("U", b"U", -2.0)]),
        TokenLogprob("", b"\xf0\x9f", -1.0),
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"data: nonsense\n\n",
        b"data: []\n\n",
        b'data: {"item": 0, "text": "", "finish": "stop"}\n\n',
        b'data: {"item": 0, "logprobs": [{}]}\n\n',
        b'data: {"error": "no"}\n\n',
        b"data: \xff\n\n",
    ],
)
def test_what_is_no_event_is_a_protocol_error(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="malformed"):
        list(Reader().add(body))
