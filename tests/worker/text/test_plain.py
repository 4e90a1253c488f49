"""Runtimes that take text: what is made of their rows is the same."""

import numpy as np

from shoal.catalog.card import Card, Source
from shoal.catalog.tasks import EncodeTask, ExtractTask, Multivector, Tasks
from shoal.errors import InvalidItem
from shoal.tasks.late import TokenVectors
from shoal.values import EncodeParams, ExtractParams
from shoal.worker.prepared import Prepared
from shoal.worker.text import PlainPreparer

TASKS = Tasks(EncodeTask(multivector=Multivector(2)), extract=ExtractTask("token-labels"))
CARD = Card("plain", Source(dir="."), "fake", TASKS, max_tokens=8)


def test_vectors_of_tokens_are_finished() -> None:
    (item,) = PlainPreparer(CARD).prepare(["fish"], EncodeParams(("multivector",), dtype="binary"))
    assert isinstance(item, Prepared)
    assert isinstance(item.finish, TokenVectors)
    answer = item.finish([{"multivector": np.array([[1.0, -1.0]], np.float32)}])
    assert np.asarray(answer["multivector"]).tolist() == [[0b10000000]]


def test_what_needs_a_tokenizer_is_refused() -> None:
    (item,) = PlainPreparer(CARD).prepare(["fish"], ExtractParams())
    assert isinstance(item, InvalidItem)
    assert "'plain'" in item.message
