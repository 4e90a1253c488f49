"""What a stream tells, put together as a client does, by rules of this test's own."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from shoal.tasks.generate.answer import Called, Delta, Said, Thought, Whole

texts = st.text("ab é\U0001f41f\n", min_size=1, max_size=6)


@st.composite
def written(draw: st.DrawFn) -> list[Delta]:
    """What a model may write: thoughts, and text and calls in any order, in parts."""
    deltas: list[Delta] = [Thought(text) for text in draw(st.lists(texts, max_size=3))]
    calls = 0
    for kind in draw(st.lists(st.sampled_from(["text", "call"]), max_size=4)):
        parts = draw(st.lists(texts, min_size=1, max_size=3))
        if kind == "text":
            deltas += [Said(text) for text in parts]
            continue
        names = [draw(st.sampled_from(["f", "g", ""])), *[None] * (len(parts) - 1)]
        deltas += [Called(calls, name, part) for name, part in zip(names, parts, strict=True)]
        calls += 1
    return deltas


def whole_of(deltas: list[Delta]) -> Whole:
    """They, joined."""
    whole = Whole()
    whole.add(deltas)
    return whole


def events_in(data: bytes) -> list[Any]:
    """What the events of a stream hold."""
    lines = data.decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
