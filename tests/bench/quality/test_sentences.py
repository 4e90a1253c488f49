"""Drawn sentences."""

from __future__ import annotations

import pytest

from shoal.bench.quality.sentences import sentences


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_same_ones_every_time_and_no_gaps(language: str) -> None:
    drawn = sentences(language, 48)
    assert drawn == sentences(language, 48)
    assert drawn[:8] == sentences(language, 8)
    assert len(drawn) == 48
    assert len({*drawn}) > 40
    assert not any(sign in text for text in drawn for sign in "{}")


def test_languages_differ() -> None:
    assert not {*sentences("en", 48)} & {*sentences("de", 48)}
    assert any("ß" in text for text in sentences("de", 48))
