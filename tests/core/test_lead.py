"""How early batches are asked for."""

import pytest

from shoal.core.lead import MOST_S, Lead


def test_at_least_what_it_was_told() -> None:
    lead = Lead(0.004)
    assert lead.seconds == 0.004
    for _ in range(100):
        lead.took(0.0005)
        lead.computed(0.01, 0.01)
    assert lead.seconds == 0.004


def test_long_preparation_is_learned_and_unlearned() -> None:
    lead = Lead(0.004)
    for _ in range(100):
        lead.took(0.005)
    assert lead.seconds == pytest.approx(0.007, abs=1e-4)
    for _ in range(100):
        lead.took(0.001)
    assert lead.seconds == 0.004


def test_batches_that_end_early_ask_for_more_and_late_ones_for_none() -> None:
    lead = Lead(0.004)
    for _ in range(100):
        lead.computed(0.02, 0.03)
    assert lead.seconds == 0.004
    for _ in range(100):
        lead.computed(0.02, 0.019)
        lead.computed(0.02, 0.021)
    assert 0.003 < lead.seconds < 0.006


def test_a_stall_does_not_make_it_hoard() -> None:
    lead = Lead(0.004)
    for _ in range(100):
        lead.took(30.0)
        lead.computed(60.0, 1.0)
    assert lead.seconds == MOST_S
