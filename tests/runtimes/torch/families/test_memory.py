"""What a pass allocates, against what the encoder says it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from shoal.runtimes.batch import Batch
from shoal.runtimes.torch.model import Model
from tests.runtimes.torch import made
from tests.runtimes.torch.families.near_llama import NEAR_LLAMA
from tests.runtimes.torch.families.rotary_bert import ROTARY_BERT
from tests.runtimes.torch.families.row import Row

#: Ids and positions of a token, and its share of what one item needs.
PACKED_BYTES = 64
ITEMS, LENGTH = 32, 64
SHAPES = [
    {"hidden_size": 128, "intermediate_size": 512},
    {"hidden_size": 128, "intermediate_size": 64},
]


@pytest.mark.parametrize("shape", SHAPES, ids=["network", "attention"])
@pytest.mark.parametrize("row", [*ROTARY_BERT, *NEAR_LLAMA], ids=lambda row: row.family)
def test_a_pass_allocates_no_more(tmp_path: Path, row: Row, shape: dict[str, int]) -> None:
    row.make("encoder", tmp_path, **shape)
    model = Model(made.load(tmp_path, family=row.family), torch.device("cpu"))
    batch = Batch(
        np.ones(ITEMS * LENGTH, np.int32),
        np.full(ITEMS, LENGTH, np.int64),
        np.zeros(ITEMS, np.int32),
    )
    model.run(batch, ["dense"])
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        model.run(batch, ["dense"])
    said = model._encoder.activation_bytes_per_token
    needed = _most_allocated(profiled) / (ITEMS * LENGTH)
    assert 0.5 * said < needed <= said + PACKED_BYTES


def _most_allocated(profiled: Any) -> int:
    every = profiled.profiler.kineto_results.events()
    events = [event for event in every if event.name() == "[memory]"]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return int(np.cumsum(changes).max())
