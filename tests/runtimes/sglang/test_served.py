from __future__ import annotations

from typing import Any

import pytest

from shoal.errors import ModelLoadFailed
from shoal.runtimes.sglang.served import served_of

GIB = 1 << 30


def bytes_of(*usages: dict[str, Any], device: str = "cuda") -> int:
    states = [{"memory_usage": usage} for usage in usages]
    told = {"model_path": "m", "device": "cuda", "internal_states": states}
    return served_of(told).held_bytes(device)


@pytest.mark.parametrize(
    "usage",
    [
        {"weight": 1.0, "kvcache": 2.0, "graph": {"decode": 0.25, "prefill": 0.25}},
        {"weight": 1.0, "kvcache": 2.0, "graph": 0.5},
        {"weight": 1.0, "kvcache": 2.0, "cuda_graph": 0.5, "token_capacity": 9},
    ],
    ids=["by kind", "in one", "cuda_graph"],
)
def test_what_versions_tell_of_memory(usage: dict[str, Any]) -> None:
    assert bytes_of(usage) == int(3.5 * GIB)
    assert bytes_of(usage, {"weight": 1.0}, device="cuda:1") == int(3.5 * GIB)
    assert bytes_of(usage, device="cpu") == 0


def test_what_says_nothing_of_memory() -> None:
    assert served_of({"model_path": "m"}).held_bytes("cpu") == 0


def test_another_server() -> None:
    with pytest.raises(ModelLoadFailed, match="does not describe itself as SGLang does"):
        served_of({"status": "ok"})
