from __future__ import annotations

import msgspec

from shoal.catalog.card import Card, Memory, Source
from shoal.catalog.gaps import GAPS, gaps
from shoal.catalog.tasks import Dense, EncodeTask, ExtractTask, Tasks

FULL = Card(
    name="tagger",
    source=Source(hub="org/tagger", revision="0" * 40),
    license="mit",
    languages=["en"],
    family="bert",
    tasks=Tasks(extract=ExtractTask(head="token-labels", labels=["O", "B-PER"])),
    max_tokens=8,
    memory=Memory(weights_mb=1),
)


def test_a_card_that_says_everything_has_none() -> None:
    assert gaps(FULL) == []


def test_what_is_not_said_is_a_gap() -> None:
    bare = msgspec.structs.replace(
        FULL,
        source=Source(hub="org/tagger"),
        license=None,
        languages=[],
        tasks=Tasks(extract=ExtractTask(head="token-labels")),
        memory=Memory(),
    )
    assert gaps(bare) == list(GAPS)


def test_nobody_misses_what_does_not_belong_there() -> None:
    dense = Tasks(encode=EncodeTask(dense=Dense(8)))
    assert gaps(msgspec.structs.replace(FULL, tasks=dense)) == []
    speech = Tasks(extract=ExtractTask(head="transcript"))
    assert gaps(msgspec.structs.replace(FULL, tasks=speech)) == []
    assert gaps(msgspec.structs.replace(FULL, source=Source(dir="/m"))) == []
