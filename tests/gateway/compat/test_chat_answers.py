"""A stream's chunks say what the whole answer says, whatever came when, was lost or came twice."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.gateway.compat.chat_answers import ChatEvents, Form, chat_answer
from shoal.gateway.feed import Feed
from shoal.gateway.replies import Answer, items_of
from shoal.gateway.units import Span
from shoal.tasks.generate.answer import Delta
from shoal.tasks.reading import Size
from shoal.wire.objects import Generation, TokenLogprob
from shoal.wire.queue import Reply
from tests.gateway.compat.told import events_in, whole_of, written
from tests.gateway.writing import pieces_of


def answered(item: int, deltas: list[Delta], told: list[TokenLogprob] | None = None) -> Answer:
    whole = whole_of(deltas)
    finish = "tool_calls" if whole.calls else "stop"
    made = Generation(whole.text, finish, 3, 4, 0, whole.reasoning, whole.calls, told)  # type: ignore[arg-type]
    reply = Reply(f"u.{item}", "w", "ack", [3], objects=[msgspec.msgpack.encode(made)])
    return Answer(Span(item, item + 1, Size(1, 1)), reply)


def put_together(events: list[Any], choices: int) -> list[dict[str, Any]]:
    """The messages that the chunks are, as OpenAI's page says: what has an index is joined by it."""
    messages: list[dict[str, Any]] = [{"content": "", "calls": {}} for _ in range(choices)]
    for event in events:
        for choice in event["choices"]:
            message, delta = messages[choice["index"]], choice["delta"]
            assert "finish" not in message, "its reason is the last that is said"
            message["content"] += delta.get("content", "")
            if thought := delta.get("reasoning_content"):
                message["reasoning"] = message.get("reasoning", "") + thought
            for call in delta.get("tool_calls", []):
                if "id" in call:
                    assert call["type"] == "function"
                    assert call["index"] == len(message["calls"]), "they begin in their order"
                    message["calls"][call["index"]] = [call["id"], call["function"]["name"], ""]
                else:
                    assert call.keys() == {"index", "function"}
                    assert call["function"].keys() == {"arguments"}
                message["calls"][call["index"]][2] += call["function"]["arguments"]
            if choice["finish_reason"] is not None:
                message["finish"] = choice["finish_reason"]
    return messages


@pytest.mark.parametrize("parallel", [True, False])
@given(st.lists(written(), min_size=1, max_size=3), st.data())
def test_the_chunks_add_up_to_the_answer(
    parallel: bool, texts: list[list[Delta]], data: st.DataObject
) -> None:
    form = Form("k-1", "agent", len(texts), False, parallel)
    feed, events = Feed(len(texts), 10**6), ChatEvents(form)
    stream = events.begin()
    coming = [(item, piece) for item, t in enumerate(texts) for piece in pieces_of(f"u.{item}", t)]
    for item, piece in coming:
        for _ in range(data.draw(st.sampled_from([1, 1, 1, 2, 0]))):  # lost, or of two workers
            feed.add(item, piece)
        if feed._woken.is_set() and data.draw(st.booleans()):
            stream += b"".join(map(events.grown, taken(feed)))
    answers = [answered(item, text) for item, text in enumerate(texts)]
    for answer in answers:
        feed.end(answer)
    stream += b"".join(map(events.grown, taken(feed))) + events.end()
    expected = chat_answer(form, [item for answer in answers for item in items_of(answer)])
    for found, choice in zip(
        put_together(events_in(stream), len(texts)), expected.choices, strict=True
    ):
        message = msgspec.to_builtins(choice.message)
        assert found["content"] == (message["content"] or "")
        assert found.get("reasoning") == message.get("reasoning_content")
        assert list(found["calls"].values()) == [
            [call["id"], call["function"]["name"], call["function"]["arguments"]]
            for call in message.get("tool_calls", [])
        ]
        assert found["finish"] == choice.finish_reason


def taken(feed: Feed) -> list[Any]:
    """What `Feed.next` gives, which has come."""
    coroutine = feed.next(0.0)
    try:
        coroutine.send(None)
    except StopIteration as done:
        return list(done.value)
    raise AssertionError("it waits")
