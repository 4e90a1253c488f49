"""Metrics of quality against figures worked out by hand."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest

from shoal.bench.quality import metrics


def test_ndcg_of_right_documents_in_several_places() -> None:
    scores = np.array([[3, 2, 1], [5, 4, 1], [3, 2, 1]], np.float32)
    expected = (1 + 1 / log2(3) + 1 / log2(4)) / 3
    assert metrics.ndcg(scores, range(3)) == pytest.approx(expected)


def test_ndcg_is_nothing_beyond_the_tenth_place() -> None:
    scores = np.arange(12, 0, -1, dtype=np.float32)[None]
    assert metrics.ndcg(scores, [9]) == pytest.approx(1 / log2(11))
    assert metrics.ndcg(scores, [10]) == 0


def test_equal_scores_count_against_a_model() -> None:
    """A sparse model with no term in common says 0 of all documents."""
    assert metrics.ndcg(np.zeros((20, 20), np.float32), range(20)) == 0


def test_documents_that_were_not_ranked_again_earn_nothing() -> None:
    scores = np.full((1, 20), -np.inf, np.float32)
    scores[0, :10] = 1.0
    assert metrics.ndcg(scores, [15]) == 0


def test_the_best_come_first() -> None:
    scores = np.array([[0.1, 0.9, 0.5], [0.3, 0.2, 0.3]], np.float32)
    assert metrics.best(scores, 2).tolist() == [[1, 2], [0, 2]]


def test_late_interaction_takes_the_best_of_a_document_for_each_token() -> None:
    one = np.array([[1, 0], [0, 1]], np.float32)
    other = np.array([[1, 0]], np.float32)
    third = np.array([[0.6, 0.8], [0.8, 0.6], [-1, 0]], np.float32)
    scores = metrics.late([one, other], [third, one, other])
    assert scores == pytest.approx(np.array([[1.6, 2, 1], [0.8, 1, 1]]))


@pytest.mark.parametrize(
    ("said", "heard", "errors"),
    [
        ("", "", 0),
        ("a b c", "a b c", 0),
        ("a b c", "a c", 1),
        ("a c", "a b c", 1),
        ("a b c", "a x c", 1),
        ("a b", "c a b d", 2),
        ("a b c d", "", 4),
        ("", "a b", 2),
    ],
)
def test_word_errors(said: str, heard: str, errors: int) -> None:
    assert metrics.word_errors(said.split(), heard.split()) == errors


def test_case_and_punctuation_are_no_errors() -> None:
    assert metrics.words("Mr. O'Brien's 4, Äpfel!") == ["mr", "o'brien's", "4", "äpfel"]
    assert metrics.word_error_rate(["ten of clubs"], [" Ten, of Clubs."]) == 0


def test_the_rate_is_over_all_words() -> None:
    assert metrics.word_error_rate(["a b c d e f g", "h"], ["a b c d e f x", "h"]) == 1 / 8
