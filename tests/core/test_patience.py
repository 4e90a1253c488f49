"""What of the time in which nothing is heard of a process counts against it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.core.patience import ASK_AFTER_S, ASK_EVERY_S, LEAST_SHARE, WORKING_COUNTS, Patience


def silence(share: float | None, limit_s: float, most_s: float = 1e5) -> float:
    """How long a process may be silent that uses this share of a core; None: nobody can read it."""
    patience, now, used_s, silent_s = Patience(), 0.0, 100.0, 0.0
    while silent_s <= limit_s and now < most_s:
        now += 1.0
        used_s += share or 0.0
        silent_s += patience.counts("k", 1.0, now)
        if patience.asks("k", silent_s, now) and share is not None:
            patience.read("k", used_s, now)
    return now


@given(
    share=st.one_of(st.none(), st.floats(0.0, 16.0)),
    limit_s=st.floats(60.0, 600.0),
)
def test_who_computes_may_be_silent_for_longer_and_never_for_ever(
    share: float | None, limit_s: float
) -> None:
    seen_s = silence(share, limit_s)
    assert limit_s < seen_s <= limit_s / WORKING_COUNTS + 1.0
    if share is None or share < 0.99 * LEAST_SHARE:
        assert seen_s <= limit_s + 1.0
    elif share > 1.01 * LEAST_SHARE:
        spared_s = limit_s - ASK_AFTER_S - 2 * ASK_EVERY_S
        assert seen_s >= ASK_AFTER_S + spared_s / WORKING_COUNTS


@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 30.0), st.sampled_from(["read", "ended", "none"]), st.floats(0.0, 1e3)
        )
    )
)
def test_no_time_counts_more_than_once_and_none_for_nothing(
    steps: list[tuple[float, str, float]],
) -> None:
    """Whatever is read, in whatever order, of a process or of the one that came after it."""
    patience, now = Patience(), 0.0
    for seconds, what, read in steps:
        now += seconds
        assert WORKING_COUNTS * seconds <= patience.counts("k", seconds, now) <= seconds
        if what == "read":
            patience.read("k", read, now)
        elif what == "ended":
            patience.ended("k")
            assert patience.counts("k", 1.0, now) == 1.0


def test_it_is_asked_for_now_and_then_of_each_that_is_silent() -> None:
    patience = Patience()
    assert not patience.asks("k", ASK_AFTER_S - 0.1, 0.0)
    assert patience.asks("k", ASK_AFTER_S, 1.0)
    assert not patience.asks("k", ASK_AFTER_S + 1.0, 1.0 + ASK_EVERY_S / 2)
    assert patience.asks("other", ASK_AFTER_S, 2.0)
    assert patience.asks("k", ASK_AFTER_S, 1.0 + ASK_EVERY_S)


def test_what_was_read_says_nothing_for_long() -> None:
    patience = Patience()
    patience.read("k", 1.0, 0.0)
    patience.read("k", 2.0, 5.0)
    assert patience.counts("k", 1.0, 6.0) == WORKING_COUNTS
    assert patience.counts("other", 1.0, 6.0) == 1.0
    assert patience.counts("k", 1.0, 6.0 + 2 * ASK_EVERY_S) == 1.0
    patience.read("k", 900.0, 500.0)  # of the time in between nothing is known
    assert patience.counts("k", 1.0, 501.0) == 1.0
    patience.read("k", 901.0, 505.0)
    assert patience.counts("k", 1.0, 506.0) == WORKING_COUNTS
    patience.read("k", 901.0, 510.0)
    assert patience.counts("k", 1.0, 511.0) == 1.0
