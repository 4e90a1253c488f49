from __future__ import annotations

import pytest

from shoal.runtimes.base import Runtime
from shoal.runtimes.packages import missing
from shoal.runtimes.serve import make


@pytest.fixture
def candle() -> Runtime:
    """A candle runtime in this process; tests that ask for it are skipped where it cannot run."""
    if (lacking := missing("candle")) is not None:
        pytest.skip(lacking)
    return make("candle")
