"""A stream's events say what the whole response says, in an order that OpenAI's clients take."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.gateway.compat.responses.answers import Asked
from shoal.gateway.compat.responses.bodies import ResponsesBody
from shoal.gateway.compat.responses.events import ResponseEvents
from shoal.gateway.counts import counts_of
from shoal.gateway.feed import Feed
from shoal.gateway.growing import read_generation
from shoal.gateway.replies import items_of
from shoal.tasks.generate.answer import Called, Delta, Said
from tests.gateway.compat.test_chat_answers import answered, taken
from tests.gateway.compat.told import events_in, whole_of, written
from tests.gateway.writing import pieces_of, token

PARTS = {"output_text": "response.output_text", "reasoning_text": "response.reasoning_text"}
CALL = "response.function_call_arguments"


def asked(parallel: bool = True) -> Asked:
    body = ResponsesBody(input=msgspec.Raw(b"null"), parallel_tool_calls=parallel)
    return Asked("k-1", "agent", 0, body)


def items(events: list[Any]) -> list[Any]:
    """The items that the events tell, one after the other; and that each is what its deltas are."""
    found: list[Any] = []
    left = iter(events)
    for event in left:
        assert event["type"] == "response.output_item.added"
        assert event["output_index"] == len(found)
        found.append(item(event["item"], left))
    return found


def item(begun: Any, left: Any) -> Any:
    """One item, up to its end. Its id and place are in each event."""
    text, where = "", {"item_id": begun["id"], "output_index": None}
    kind = CALL
    event = next(left)
    where["output_index"] = event["output_index"]
    if event["type"] == "response.content_part.added":
        kind = PARTS[event["part"]["type"]]
        where["content_index"] = 0
        assert event["part"]["text"] == ""
        event = next(left)
    while event["type"] == f"{kind}.delta":
        assert event | where == event
        text += event["delta"]
        event = next(left)
    assert event["type"] == f"{kind}.done"
    assert event | where == event
    assert event["arguments" if kind == CALL else "text"] == text
    if kind != CALL:
        part = next(left)
        assert part["type"] == "response.content_part.done"
        assert part["part"]["text"] == text
    last = next(left)
    assert last["type"] == "response.output_item.done"
    assert last["output_index"] == where["output_index"]
    assert (last["item"]["id"], last["item"]["type"]) == (begun["id"], begun["type"])
    assert begun["status"] == "in_progress"
    return last["item"]


@pytest.mark.parametrize("parallel", [True, False])
@given(written(), st.data())
def test_the_events_add_up_to_the_response(
    parallel: bool, text: list[Delta], data: st.DataObject
) -> None:
    form = asked(parallel)
    feed, events = Feed(1, 10**6), ResponseEvents(form)
    stream = events.begin()
    for piece in pieces_of("u.0", text):
        for _ in range(data.draw(st.sampled_from([1, 1, 1, 2, 0]))):  # lost, or of two workers
            feed.add(0, piece)
        if feed._woken.is_set() and data.draw(st.booleans()):
            stream += b"".join(map(events.grown, taken(feed)))
    answer = answered(0, text)
    feed.end(answer)
    stream += b"".join(map(events.grown, taken(feed))) + events.end()
    created, in_progress, *middle, completed = events_in(stream)
    told = [created, in_progress, *middle, completed]
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    found = items(middle)
    assert completed["type"] == "response.completed"
    assert completed["response"]["output"] == found
    (one,) = items_of(answer)
    whole = read_generation(one.told)
    expected = msgspec.to_builtins(form.ended(whole, counts_of(one), form.output(whole)))
    assert of_kind(found, "reasoning") == of_kind(expected["output"], "reasoning")
    assert of_kind(found, "function_call") == of_kind(expected["output"], "function_call")
    assert said(found) == said(expected["output"])
    assert completed["response"]["usage"] == expected["usage"]


def of_kind(output: list[Any], kind: str) -> list[Any]:
    return [item for item in output if item["type"] == kind]


def said(output: list[Any]) -> str | None:
    """What all messages say together; None where there is none."""
    messages = of_kind(output, "message")
    return "".join(m["content"][0]["text"] for m in messages) if messages else None


def test_what_is_said_after_a_call_is_a_message_of_its_own() -> None:
    text: list[Delta] = [Said("Wait."), Called(0, "f", "{}"), Said("Done.")]
    events, feed = ResponseEvents(asked()), Feed(1, 100)
    for piece in pieces_of("u.0", text):
        feed.add(0, piece)
    feed.end(answered(0, text))
    stream = b"".join(map(events.grown, taken(feed)))
    found = items(events_in(stream))
    assert [(item["type"], item["id"][-2:]) for item in found] == [
        ("message", "_0"),
        ("function_call", "_0"),
        ("message", "_1"),
    ]
    assert whole_of(text).text == said(found) == "Wait.Done."


def test_tokens_are_told_with_the_message_that_comes_next() -> None:
    hm, well = token("Hm"), token("Well")
    text: list[Delta] = [Said("Well")]
    events, feed = ResponseEvents(asked()), Feed(1, 1000)
    (piece,) = pieces_of("u.0", text)
    packed = msgspec.msgpack.encode([hm])
    feed.add(0, msgspec.structs.replace(piece, text="", told=packed))
    assert b"".join(map(events.grown, taken(feed))) == b"", "no message yet"
    feed.end(answered(0, text, [hm, well]))
    stream = events_in(b"".join(map(events.grown, taken(feed))))
    (message,) = items(stream)
    deltas = [e["logprobs"] for e in stream if e["type"] == "response.output_text.delta"]
    told = [one["token"] for some in deltas for one in some]
    assert told == ["Hm", "Well"] == [one["token"] for one in message["content"][0]["logprobs"]]
