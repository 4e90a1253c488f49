from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.runtimes.torch.runtime import TorchRuntime


@pytest.fixture
def runtime() -> Iterator[TorchRuntime]:
    """What it loaded is unloaded: grammars have threads and a process of their own."""
    runtime = TorchRuntime()
    yield runtime
    for model in runtime.stats().models:
        runtime.unload(model)
