from __future__ import annotations

import pytest

from shoal.runtimes.torch.runtime import TorchRuntime


@pytest.fixture
def runtime() -> TorchRuntime:
    return TorchRuntime()
