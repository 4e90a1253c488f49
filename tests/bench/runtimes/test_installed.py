from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

from shoal.bench.runtimes.installed import installed


def test_what_a_kind_adds_is_its_packages_and_theirs() -> None:
    torch = installed("torch")
    alone = sum(
        Path(str(file.locate())).stat().st_size for file in distribution("torch").files or ()
    )
    assert alone < torch.added_bytes < alone * 1.5  # sympy, networkx and others; not numpy


def test_a_kind_that_needs_nothing_adds_nothing() -> None:
    fake = installed("fake")
    assert fake.added_bytes == 0
    assert fake.own_bytes == installed("onnx").own_bytes > 50e6  # nats-server and numpy are in it
