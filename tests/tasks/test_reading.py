from __future__ import annotations

import pytest

from shoal.catalog.tasks import ExtractTask, GenerateTask, ScoreTask, Tasks
from shoal.core import events as ev
from shoal.tasks.reading import Size, reading_of
from shoal.values import (
    EncodeParams,
    ExtractParams,
    Features,
    GenerateParams,
    Params,
    ScoreParams,
    TokenizeParams,
    estimated_features,
)
from tests.core.test_worker import ready

QUERY = ScoreParams(b"q" * 30)
LABELS = ExtractParams(("a", "bé"))
PAIRS = Tasks(score=ScoreTask())
LATE = Tasks(score=ScoreTask("maxsim"))
ZERO_SHOT = Tasks(extract=ExtractTask("nli"))
MATCHING = Tasks(extract=ExtractTask("image-text"))
ENTITIES = Tasks(extract=ExtractTask("token-labels"))


@pytest.mark.parametrize(
    ("params", "tasks", "item", "unit"),
    [
        (EncodeParams(), Tasks(), (10, 1), (30, 3)),
        # A query with each document, or once for all of them.
        (EncodeParams(instruction="é"), Tasks(), (12, 1), (36, 3)),
        (QUERY, PAIRS, (40, 1), (120, 3)),
        (QUERY, Tasks(score=ScoreTask("yes-no")), (40, 1), (120, 3)),
        (ScoreParams(b"q" * 30, instruction="é"), PAIRS, (42, 1), (126, 3)),
        (ScoreParams(b"q" * 30, instruction="é"), LATE, (10, 1), (62, 4)),
        (QUERY, LATE, (10, 1), (60, 4)),
        (QUERY, Tasks(score=ScoreTask("cosine")), (10, 1), (60, 4)),
        # A text once a label, with that label; images once, and the labels once beside them.
        (LABELS, ZERO_SHOT, (24, 2), (72, 6)),
        (LABELS, MATCHING, (10, 1), (34, 5)),
        (LABELS, ENTITIES, (14, 1), (42, 3)),
        (ExtractParams(), ZERO_SHOT, (10, 1), (30, 3)),
        (TokenizeParams(), ENTITIES, (10, 1), (30, 3)),
    ],
)
def test_what_three_items_of_ten_bytes_count(
    params: Params, tasks: Tasks, item: tuple[int, int], unit: tuple[int, int]
) -> None:
    reading = reading_of(params, tasks)
    assert reading.item(10) == Size(*item)
    assert reading.unit(30, 3) == Size(*unit)


def test_a_query_travels_with_each_unit_wherever_it_is_read() -> None:
    assert [reading_of(QUERY, tasks).carried_bytes for tasks in (PAIRS, LATE)] == [30, 30]


@pytest.mark.parametrize(
    ("asked", "said", "told"), [(8, None, 8), (8, 500, 8), (None, 500, 500), (None, None, 0)]
)
def test_what_a_text_may_become_is_as_asked_for_or_as_the_card_says(
    asked: int | None, said: int | None, told: int
) -> None:
    params = GenerateParams(max_tokens=asked, tools="[1]")
    tasks = Tasks(generate=GenerateTask(max_new_tokens=said))
    reading = reading_of(params, tasks)
    assert reading.item(10) == Size(13, 1, told)
    assert reading.unit(20, 2) == Size(26, 2, 2 * told)
    assert estimated_features(*reading.unit(20, 2), longest=512) == Features(10, 2, 50, 2 * told)


def test_where_images_are_an_item_counts_what_is_told_of_it() -> None:
    reading = reading_of(
        GenerateParams(tools="[1]", read_bytes=4000), Tasks(generate=GenerateTask())
    )
    assert reading.item(10_000_000) == Size(4003, 1)
    assert reading.unit(20_000_000, 2) == Size(8006, 2)


def test_no_sequence_is_guessed_to_be_longer_than_its_model_takes() -> None:
    assert estimated_features(4000, 2, longest=512) == Features(1004, 2, 1004 * 1004 // 2)
    assert estimated_features(40_000, 2, longest=512) == Features(1024, 2, 1024 * 512)


def pulled(params: Params, tasks: Tasks) -> list[ev.Instruction]:
    """What an idle worker does with a unit of two items of 40 bytes, behind which many wait."""
    core = ready()
    core.models["m"].unit_seen(0.02)
    estimate = estimated_features(*reading_of(params, tasks).unit(80, 2), longest=512)
    head = ev.UnitHead("u", "r", "m", estimate, 600.0)
    return core.handle(ev.Arrived(head, 1, pending=500), 1.0)


def test_a_worker_takes_on_less_beside_a_unit_whose_query_or_labels_are_long() -> None:
    """A token is a millisecond, a batch a tenth of a second, and the others a fiftieth each."""
    query, labels = ScoreParams(b"q" * 80), ExtractParams(("l" * 50,) * 2)
    prepare = ev.Prepare("u")
    assert pulled(EncodeParams(), Tasks()) == [prepare, ev.Pull(2, "m", 3, standing=False)]
    assert pulled(query, LATE) == [prepare, ev.Pull(2, "m", 2, standing=False)]
    assert pulled(query, PAIRS) == [prepare, ev.Pull(2, "m", 1, standing=False)]
    assert pulled(labels, ZERO_SHOT) == [prepare]
