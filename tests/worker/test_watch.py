"""What a worker learns of texts, by which gateways price them."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.catalog.tasks import ExtractTask, ScoreTask, Tasks
from shoal.errors import InvalidItem, ShoalError
from shoal.tasks.reading import reading_of
from shoal.telemetry.metrics import WorkerMetrics
from shoal.values import BYTES_PER_TOKEN, EncodeParams, ExtractParams, Params, ScoreParams, task_of
from shoal.wire.queue import Unit
from shoal.worker.prepared import Prepared, several
from shoal.worker.stash import Stash
from shoal.worker.watch import MOST_BYTES_PER_TOKEN, Watch

NOTHING = Tasks()
#: An item has 40 bytes; in each of these units four bytes are a token.
ITEM = Prepared(length=10)
QUERY = ScoreParams(b"q" * 400)
LABELS = ExtractParams(("l" * 20, "k" * 20))
PAIR = Prepared(length=110)
CLAIMS = several([Prepared(length=15)] * 2, lambda rows, query: b"")


def learned(params: Params, tasks: Tasks, items: list[Prepared | ShoalError]) -> float:
    """Bytes a token, after many units of three items of 40 bytes."""
    watch = Watch(WorkerMetrics(), {}, None)
    unit = Unit("u", "r", "m", task_of(params), params, "json", [b"x" * 40] * 3, 60.0, "here")
    for _ in range(200):
        size = reading_of(params, tasks).unit(unit.item_bytes, len(unit.items))
        stash = Stash(unit, size, "ack", 1, 0.0, 0.0)
        watch.prepared(stash, stash.prepared(list(items), 0.0))
    return watch.bytes_per_token("m")


@pytest.mark.parametrize(
    ("params", "tasks", "items"),
    [
        (EncodeParams(), NOTHING, [ITEM] * 3),
        (QUERY, Tasks(score=ScoreTask()), [PAIR] * 3),
        (QUERY, Tasks(score=ScoreTask("maxsim")), [*[ITEM] * 3, Prepared(length=100)]),
        (LABELS, Tasks(extract=ExtractTask("nli")), [CLAIMS] * 3),
    ],
)
def test_a_token_has_as_many_bytes_whatever_it_is_read_for(
    params: Params, tasks: Tasks, items: list[Prepared | ShoalError]
) -> None:
    assert learned(params, tasks, items) == pytest.approx(4.0)


def test_the_mean_follows_the_texts_within_bounds() -> None:
    assert learned(EncodeParams(), NOTHING, [Prepared(length=20)] * 3) == pytest.approx(2.0, 1e-3)
    strange = learned(EncodeParams(), NOTHING, [Prepared(length=1)] * 3)
    assert strange == pytest.approx(MOST_BYTES_PER_TOKEN, 1e-3)


@pytest.mark.parametrize(
    "item",
    [
        InvalidItem("no text"),
        Prepared(length=8, truncated=True),
        Prepared(length=8, input=np.zeros((2, 2, 3), np.uint8)),
        several([Prepared(length=8, input=np.zeros((2, 2, 3), np.uint8)), ITEM], lambda r, q: b""),
    ],
)
def test_items_whose_bytes_did_not_all_become_tokens_teach_nothing(
    item: Prepared | ShoalError,
) -> None:
    assert learned(EncodeParams(), NOTHING, [Prepared(length=20), item, item]) == BYTES_PER_TOKEN
