"""How long property tests search: the same examples each time, or many new ones when asked to.

`HYPOTHESIS_PROFILE=thorough` searches for minutes and keeps what it finds for the next run.
"""

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Generating a history of a state machine takes longer than its steps.
_SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "default", derandomize=True, deadline=None, stateful_step_count=60, suppress_health_check=_SLOW
)
settings.register_profile(
    "thorough",
    max_examples=3000,
    deadline=None,
    stateful_step_count=150,
    suppress_health_check=_SLOW,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(autouse=True)
def subnormal_floats() -> Iterator[None]:
    """A torch runtime flushes them in its own process; one made in a test must not for the next."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_flush_denormal(False)
