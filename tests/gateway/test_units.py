from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.gateway.units import REPLY_BYTES, Span, UnitLimits, bounded_by_reply, cut
from shoal.values import EncodeParams


def test_units_are_bounded_by_items_and_bytes() -> None:
    assert cut([b"abc"] * 5, UnitLimits(2, 100)) == [Span(0, 2, 6), Span(2, 4, 6), Span(4, 5, 3)]
    assert cut([b"abc"] * 3, UnitLimits(64, 7)) == [Span(0, 2, 6), Span(2, 3, 3)]


def test_an_item_over_the_limit_is_a_unit_of_its_own() -> None:
    assert cut([b"a", b"b" * 50, b"c"], UnitLimits(64, 10)) == [
        Span(0, 1, 1),
        Span(1, 2, 50),
        Span(2, 3, 1),
    ]


def test_wide_vectors_make_small_units() -> None:
    limits = UnitLimits(64, 1 << 16)
    wide = bounded_by_reply(limits, EncodeParams(), 4096)
    assert wide.items * 4096 * 4 < REPLY_BYTES
    assert bounded_by_reply(limits, EncodeParams(dtype="float16"), 4096).items > wide.items
    assert bounded_by_reply(limits, EncodeParams(dimensions=64), 4096).items == 64
    assert bounded_by_reply(limits, EncodeParams(), 1_000_000).items == 1


@given(st.lists(st.binary(max_size=40), min_size=1), st.integers(1, 9), st.integers(1, 90))
def test_every_item_is_in_one_unit(items: list[bytes], most: int, most_bytes: int) -> None:
    spans = cut(items, UnitLimits(most, most_bytes))
    assert [n for span in spans for n in range(span.start, span.end)] == list(range(len(items)))
    for span in spans:
        assert span.bytes == sum(map(len, items[span.start : span.end]))
        assert 1 <= span.items <= most
        assert span.bytes <= most_bytes or span.items == 1
