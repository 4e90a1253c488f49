from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.catalog.tasks import Dense, EncodeTask, ExtractTask, Multivector, ScoreTask, Tasks
from shoal.core.admission_events import Rate
from shoal.gateway.units import (
    REPLY_BYTES,
    Span,
    UnitLimits,
    bounded_by_reply,
    cut,
)
from shoal.tasks.answering import answer_size
from shoal.tasks.labels import labelled
from shoal.tasks.reading import Size, reading_of
from shoal.values import BYTES_PER_TOKEN, EncodeParams, ExtractParams, ScoreParams

#: One byte takes a millisecond.
RATE = Rate(seconds_per_byte=1e-3, seconds_per_item=0.0)


def test_units_are_bounded_by_items_and_bytes() -> None:
    assert cut([b"abc"] * 5, UnitLimits(2, 100), RATE) == [
        Span(0, 2, Size(6, 2)),
        Span(2, 4, Size(6, 2)),
        Span(4, 5, Size(3, 1)),
    ]
    assert cut([b"abc"] * 3, UnitLimits(64, 7), RATE) == [
        Span(0, 2, Size(6, 2)),
        Span(2, 3, Size(3, 1)),
    ]


def test_units_are_bounded_by_predicted_seconds() -> None:
    limits = UnitLimits(64, 1 << 16, seconds=0.1)
    assert [s.items for s in cut([b"x" * 30] * 7, limits, RATE)] == [3, 3, 1]
    assert [s.items for s in cut([b"x" * 500, b"y"], limits, RATE)] == [1, 1]


def test_an_item_over_the_limit_is_a_unit_of_its_own() -> None:
    assert cut([b"a", b"b" * 50, b"c"], UnitLimits(64, 10), RATE) == [
        Span(0, 1, Size(1, 1)),
        Span(1, 2, Size(50, 1)),
        Span(2, 3, Size(1, 1)),
    ]


def test_wide_vectors_make_small_units() -> None:
    limits = UnitLimits(64, 1 << 16)

    def bounded(params: EncodeParams, dim: int = 4096) -> UnitLimits:
        return bounded_by_reply(
            limits, answer_size(params, Tasks(encode=EncodeTask(dense=Dense(dim))), 256)
        )

    wide = bounded(EncodeParams())
    assert wide.items * 4096 * 4 < REPLY_BYTES
    assert bounded(EncodeParams(dtype="float16")).items > wide.items
    assert bounded(EncodeParams(dimensions=64)).items == 64
    assert bounded(EncodeParams(), 1_000_000).items == 1


def test_vectors_of_each_token_bound_a_unit_by_the_bytes_of_its_texts() -> None:
    task = EncodeTask(multivector=Multivector(128))
    size = answer_size(EncodeParams(outputs=("multivector",)), Tasks(encode=task), 256)
    limits = bounded_by_reply(UnitLimits(64, 64 * 1024, 1.0), size)
    tokens = limits.bytes / BYTES_PER_TOKEN
    assert limits.items == 64 and 0.9 * REPLY_BYTES < tokens * 128 * 4 <= REPLY_BYTES


def test_fixed_dimensional_encodings_make_small_units() -> None:
    task = EncodeTask(multivector=Multivector(128))
    size = answer_size(EncodeParams(outputs=("fde",)), Tasks(encode=task), 256)
    assert bounded_by_reply(UnitLimits(64, 64 * 1024, 1.0), size).items == 12


def test_a_query_counts_with_each_document_or_once_a_unit_as_its_model_reads_it() -> None:
    limits, query = UnitLimits(64, 1 << 16, seconds=0.1), ScoreParams(b"x" * 30)
    pairs = reading_of(query, Tasks(score=ScoreTask()))
    assert cut([b"y" * 20] * 5, limits, RATE, pairs) == [
        Span(0, 2, Size(100, 2)),
        Span(2, 4, Size(100, 2)),
        Span(4, 5, Size(50, 1)),
    ]
    apart = reading_of(query, Tasks(score=ScoreTask("maxsim")))
    assert cut([b"y" * 20] * 5, limits, RATE, apart) == [
        Span(0, 3, Size(90, 4)),
        Span(3, 5, Size(70, 3)),
    ]


def test_an_item_of_several_sequences_costs_as_many_of_the_longest_at_most() -> None:
    """A text is read with each label."""
    rate = Rate(seconds_per_byte=1e-3, seconds_per_item=0.0, longest_item_s=0.01)
    limits = UnitLimits(64, 1 << 20, seconds=0.1)
    nli = reading_of(ExtractParams(("a",) * 5), Tasks(extract=ExtractTask("nli")))
    assert [s.items for s in cut([b"x" * 500] * 4, limits, rate, nli)] == [2, 2]


def test_labels_of_an_answer_count_however_many_there_are() -> None:
    limits = UnitLimits(64, 64 * 1024, 1.0)
    names = [f"a class of images, number {n}" for n in range(1000)]
    for task, params in (
        (ExtractTask("image-labels", names), ExtractParams()),
        (ExtractTask("nli"), ExtractParams(tuple(names))),
    ):
        items = bounded_by_reply(limits, answer_size(params, Tasks(extract=task), 256)).items
        told = len(labelled([(name, 0.5) for name in names]))
        assert 0.5 * REPLY_BYTES < items * told <= REPLY_BYTES
    few = answer_size(ExtractParams(("a", "b")), Tasks(extract=ExtractTask("nli")), 256)
    assert bounded_by_reply(limits, few).items == 64


def test_queries_filled_with_masks_count_as_filled() -> None:
    task = EncodeTask(multivector=Multivector(128, query_tokens=32))
    size = answer_size(EncodeParams(outputs=("multivector",)), Tasks(encode=task), 256)
    items = bounded_by_reply(UnitLimits(64, 64 * 1024, 1.0), size).items
    assert items * 32 * 128 * 4 <= REPLY_BYTES


@given(st.lists(st.binary(max_size=40), min_size=1), st.integers(1, 9), st.integers(1, 90))
def test_every_item_is_in_one_unit(items: list[bytes], most: int, most_bytes: int) -> None:
    spans = cut(items, UnitLimits(most, most_bytes), RATE)
    assert [n for span in spans for n in range(span.start, span.end)] == list(range(len(items)))
    for span in spans:
        assert span.size == Size(sum(map(len, items[span.start : span.end])), span.items)
        assert 1 <= span.items <= most
        assert span.size.bytes <= most_bytes or span.items == 1
