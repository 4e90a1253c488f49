from __future__ import annotations

import msgspec
import numpy as np
import pytest

from shoal.tasks.matching import Matches

ROWS = [{"extract": np.array(row, np.float32)} for row in ([2, 0.5], [1, 1], [-1, 1], [0, 1])]


def told(matches: Matches) -> dict[str, float]:
    labels = msgspec.msgpack.decode(matches(ROWS[:1], ROWS[1:]))["labels"]
    assert [label["score"] for label in labels] == sorted(
        (label["score"] for label in labels), reverse=True
    )
    return {label["label"]: label["score"] for label in labels}


def test_labels_exclude_each_other() -> None:
    shares = np.exp([2.5, -1.5, 0.5]) / np.exp([2.5, -1.5, 0.5]).sum()
    expected = dict(zip(("a", "b", "c"), shares.tolist(), strict=True))
    assert told(Matches(("a", "b", "c"))) == pytest.approx(expected, abs=1e-6)


def test_or_each_fits_by_itself() -> None:
    scores = told(Matches(("a", "b", "c"), multi_label=True, threshold=0.5))
    assert scores == pytest.approx({"a": 0.924142, "c": 0.622459}, abs=1e-5)
