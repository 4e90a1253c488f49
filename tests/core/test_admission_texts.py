"""Texts that are generated are admitted by what they may become, as far as that is expected."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.core import admission_events as ev
from shoal.core.admission import Admission
from shoal.core.cost import NEW_TOKENS, TERMS, CostModel
from shoal.values import Features

TOKEN_S = 0.01
PLACES = 8
WINDOW = 2  # full batches
LONG, SHORT = 400, 8


def learnt(*texts: tuple[int, bool]) -> ev.Rate:
    """What a worker tells after these: tokens, and whether it ended there since it might be no longer."""
    cost = CostModel(0.0, 0.0, 0.0, 0.0, TOKEN_S, terms=TERMS["generate"])
    for tokens, cut in texts:
        cost.learn(Features(10, new_tokens=tokens), TOKEN_S * tokens, cut=cut)
    return ev.Rate(
        0.0,
        0.0,
        lanes=1,
        batch_s=PLACES * cost.item_s(10),
        seconds_per_new_token=cost.new_token_s,
        new_tokens=cost.new_tokens,
    )


def text(request: str, most: int, rate: ev.Rate) -> ev.Arrived:
    return ev.Arrived(request, "m", (ev.UnitSize(f"{request}.0", 40, 1, most),), rate)


def is_taken(out: list[ev.Instruction]) -> bool:
    return not any(isinstance(do, ev.Fail) for do in out)


def taken_of(admission: Admission, most: int, rate: ev.Rate, offered: int = 200) -> int:
    """How many of so many texts are let in."""
    name = f"{most}"
    return sum(
        is_taken(admission.handle(text(f"{name}-{n}", most, rate), 0.0)) for n in range(offered)
    )


def test_short_texts_after_long_ones_are_let_in_as_far_as_they_fit() -> None:
    rate = learnt(*[(LONG, False)] * 50)
    fit = int(WINDOW * rate.batch_s / (SHORT * TOKEN_S))
    assert abs(taken_of(Admission(WINDOW, 1.0), SHORT, rate, 2 * fit) - fit) <= 0.02 * fit


def test_long_texts_after_short_ones_are_refused_at_the_load_that_they_are() -> None:
    """Of a model whose texts were cut at eight tokens nobody knows that the next ones end there too."""
    rate = learnt(*[(SHORT, True)] * 50)
    assert rate.seconds(40, 1, LONG) == NEW_TOKENS * rate.seconds_per_new_token
    fit = int(60.0 / (NEW_TOKENS * TOKEN_S))
    assert taken_of(Admission(2, 60.0), LONG, rate) == fit
    least = WINDOW * PLACES
    assert least - 1 <= taken_of(Admission(WINDOW, 1.0), LONG, rate) <= least


def test_a_model_that_says_little_is_not_charged_for_what_it_might_say() -> None:
    rate = learnt(*[(SHORT, False)] * 150)
    assert taken_of(Admission(2, 10.0), LONG, rate) > 100


RATES = st.builds(
    ev.Rate,
    seconds_per_byte=st.floats(0.0, 1e-3),
    seconds_per_item=st.floats(0.0, 1.0),
    lanes=st.integers(0, 3),
    longest_item_s=st.floats(0.0, 10.0) | st.just(float("inf")),
    batch_s=st.floats(1e-3, 10.0),
    seconds_per_new_token=st.floats(1e-7, 1.0),
    new_tokens=st.floats(1.0, 1e6),
)


@given(RATES, st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 20))
def test_who_asks_for_more_is_not_let_in_for_less(
    rate: ev.Rate, most: int, more: int, before: int
) -> None:
    fewer, longer = Admission(2, 10.0), Admission(2, 10.0)
    for admission in (fewer, longer):
        taken_of(admission, 100, rate, before)
    asked, asked_more = text("r", most, rate), text("r", most + more, rate)
    if not is_taken(longer.handle(asked_more, 0.0)):
        return
    assert is_taken(fewer.handle(asked, 0.0))
    grown = [admission.outstanding().outstanding_s["m"] for admission in (fewer, longer)]
    assert 0 < grown[0] <= grown[1]


@given(RATES, st.integers(1, 10**6))
def test_no_text_is_free_or_costs_more_than_it_may_become(rate: ev.Rate, most: int) -> None:
    read_s = ev.Rate(
        rate.seconds_per_byte, rate.seconds_per_item, longest_item_s=rate.longest_item_s
    )
    seconds = rate.seconds(40, 1, most)
    assert 0 < seconds <= read_s.seconds(40, 1) + most * rate.seconds_per_new_token
