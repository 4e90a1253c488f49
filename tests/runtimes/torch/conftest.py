from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from shoal.runtimes.torch.runtime import TorchRuntime


@pytest.fixture(autouse=True)
def subnormal_floats() -> Iterator[None]:
    """A runtime flushes them in its own process; here the tests of other parts come after it."""
    yield
    torch.set_flush_denormal(False)


@pytest.fixture
def runtime() -> TorchRuntime:
    return TorchRuntime()
