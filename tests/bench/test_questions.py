"""What chaos asks: items that are never asked twice, and vectors known beforehand."""

import msgspec
import numpy as np
import pytest

from shoal.bench.questions import (
    CARDS,
    FILES_MODEL,
    KINDS,
    LARGE_BYTES,
    MODEL,
    Kind,
    Question,
    expected,
)
from shoal.catalog.parse import parse_card
from shoal.runtimes.fake.hashing import pack_media, seed_of, vectors_of


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_no_item_is_asked_twice(kind: Kind) -> None:
    asked = [kind.question(phase, number) for phase in ("kill", "stop") for number in range(20)]
    items = [(question.model, item) for question in asked for item in question.items]
    assert len(set(items)) == len(items)
    assert {question.model for question in asked} <= set(CARDS)


def test_the_cards_are_read() -> None:
    for name, card in CARDS.items():
        assert parse_card(card, name).name == name


def test_large_items_are_larger_than_the_queue_takes() -> None:
    (large,) = [kind for kind in KINDS if kind.name == "large items"]
    asked = [large.question("kill", number) for number in range(3)]
    assert all(max(map(len, question.items)) >= LARGE_BYTES for question in asked)
    assert {type(item) for question in asked for item in question.items} == {str, bytes}


def test_a_question_with_files_is_sent_as_messagepack() -> None:
    question = Question(FILES_MODEL, [b"file", "text"], "bulk")
    head, _, body = question.request(1.5).partition(b"\r\n\r\n")
    assert b"Content-Type: application/msgpack" in head
    assert b"X-Class: bulk" in head
    assert b"X-Request-Timeout: 1.500" in head
    assert msgspec.msgpack.decode(body) == {"items": [b"file", "text"]}


def test_only_its_own_vectors_are_right() -> None:
    question = Question(FILES_MODEL, [b"file", "text"])
    vectors = vectors_of(*pack_media([b"file", b"text"]), 8, seed_of(FILES_MODEL, "dense"))
    answers = [{"dense": vector.tolist()} for vector in vectors]
    assert question.is_right(answers)
    assert not question.is_right(answers[::-1])
    assert not question.is_right(answers[:1])
    assert not np.allclose(expected("a", MODEL), expected("a", "packed-fake-0"))
