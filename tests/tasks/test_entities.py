"""Labels of tokens to entities: hand-made logits, and transformers' ``simple`` aggregation."""

from __future__ import annotations

import random
import re
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.tasks.entities import Entities, Located, Scheme, scheme_of

LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
BIO = scheme_of(LABELS)


def located(text: str, *pieces: str) -> Located:
    """Tokens are these pieces, in order; a piece that starts with ``##`` is of the word before it."""
    spans: list[tuple[int, int]] = []
    words: list[int] = []
    at = 0
    for piece in pieces:
        bare = piece.removeprefix("##")
        at = text.index(bare, at)
        spans.append((at, at + len(bare)))
        words.append(words[-1] if piece.startswith("##") else len(spans))
        at += len(bare)
    offsets = np.array(spans, np.int32).reshape(-1, 2)
    return Located(text, offsets[:, 0], offsets[:, 1], np.array(words, np.int32))


def logits(labels: tuple[str, ...], said: list[str], least: float = 4.0) -> NDArray[np.float32]:
    """Logits whose likeliest labels are these, with a special token on each side."""
    rows = np.zeros((len(said) + 2, len(labels)), np.float32)
    for row, label in enumerate(said, 1):
        rows[row, labels.index(label)] = least
    return rows


def told(
    at: Located, rows: NDArray[np.float32], scheme: Scheme = BIO, **options: Any
) -> list[tuple[str, str]]:
    windows = [range(len(at.starts))]
    answer = Entities(at, scheme, windows, 1, **options)([{"extract": rows}])
    found = msgspec.msgpack.decode(answer)["entities"]
    for entity in found:
        assert at.text[entity["start"] : entity["end"]] == entity["text"]
    return [(entity["label"], entity["text"]) for entity in found]


def test_neighbours_of_one_type_are_one_entity_and_b_begins_another() -> None:
    at = located("Ada Lovelace Grace met London", "Ada", "Lovelace", "Grace", "met", "London")
    rows = logits(LABELS, ["B-PER", "I-PER", "B-PER", "O", "I-LOC"])
    assert told(at, rows) == [("PER", "Ada Lovelace"), ("PER", "Grace"), ("LOC", "London")]


def test_pieces_of_a_word_never_part() -> None:
    at = located("in Schneiderstadt now", "in", "Schneid", "##er", "##stadt", "now")
    rows = logits(LABELS, ["O", "B-LOC", "I-LOC", "O", "O"])
    assert told(at, rows) == [("LOC", "Schneiderstadt")]
    rows = logits(LABELS, ["O", "B-LOC", "O", "O", "O"])
    assert told(at, rows) == [], "two of three pieces are sure that it is nothing"
    rows = logits(LABELS, ["O", "B-LOC", "B-LOC", "B-LOC", "O"])
    assert told(at, rows) == [("LOC", "Schneiderstadt")]


def test_punctuation_is_no_piece_of_a_word() -> None:
    """Of tokenizers that part words at spaces only."""
    at = located("in Berlin.", "in", "Berlin", "##.")
    assert told(at, logits(LABELS, ["O", "B-LOC", "O"])) == [("LOC", "Berlin")]


def test_an_address_is_one_entity() -> None:
    at = located(
        "to max.muster@post.de or", "to", "max", ".", "muster", "@", "post", ".", "de", "or"
    )
    rows = logits(LABELS, ["O", "B-PER", "B-PER", "B-PER", "O", "B-PER", "B-PER", "I-PER", "O"])
    assert told(at, rows) == [("PER", "max.muster@post.de")]
    apart = located("Ulm, Bonn Köln", "Ulm", ",", "Bonn", "Köln")
    rows = logits(LABELS, ["B-LOC", "O", "B-LOC", "B-LOC"])
    assert [text for _, text in told(apart, rows)] == ["Ulm", "Bonn", "Köln"]


def test_where_no_spaces_are_written_neighbours_stay_apart() -> None:
    at = located("北京上海", "北", "京", "上", "海")
    rows = logits(LABELS, ["B-LOC", "I-LOC", "B-LOC", "I-LOC"])
    assert [text for _, text in told(at, rows)] == ["北京", "上海"]
    at = located("北京上海", "北京", "##上海")
    assert [text for _, text in told(at, logits(LABELS, ["B-LOC", "O"]))] == ["北京"]


@pytest.mark.parametrize(("single", "last"), [("S", "E"), ("U", "L")], ids=["BIOES", "BILOU"])
def test_labels_that_say_where_entities_end(single: str, last: str) -> None:
    labels = ("O", "B-PER", "I-PER", f"{last}-PER", f"{single}-PER")
    at = located("a b c d e", *"abcde")
    rows = logits(labels, ["B-PER", f"{last}-PER", "I-PER", f"{single}-PER", f"{single}-PER"])
    found = told(at, rows, scheme_of(labels))
    assert [text for _, text in found] == ["a b", "c", "d", "e"]


def test_labels_without_a_scheme() -> None:
    labels = ("O", "E-MAIL", "S-CLASS", "NAME")
    at = located("a b c d", *"abcd")
    rows = logits(labels, ["E-MAIL", "E-MAIL", "S-CLASS", "NAME"])
    found = told(at, rows, scheme_of(labels))
    assert found == [("E-MAIL", "a b"), ("S-CLASS", "c"), ("NAME", "d")]


def test_a_choice_and_a_threshold() -> None:
    at = located("Ada met London", "Ada", "met", "London")
    rows = logits(LABELS, ["B-PER", "O", "B-LOC"])
    rows[3] /= 2
    assert told(at, rows, wanted=frozenset({"LOC"})) == [("LOC", "London")]
    assert told(at, rows, threshold=0.9) == [("PER", "Ada")]


def test_spaces_that_tokens_hold_are_no_part_of_an_entity() -> None:
    at = Located("in  Berlin ", *(np.array(a, np.int32) for a in ([0, 2], [2, 11], [0, 1])))
    assert told(at, logits(LABELS, ["O", "B-LOC"])) == [("LOC", "Berlin")]


def test_no_tokens_no_entities() -> None:
    assert told(located(""), logits(LABELS, [])) == []


def test_entities_across_windows() -> None:
    at = located("a b c d e f", *"abcdef")
    windows = [range(4), range(2, 6)]
    first = logits(LABELS, ["O", "O", "B-LOC", "O"])
    second = logits(LABELS, ["O", "I-LOC", "I-LOC", "O"])
    answer = Entities(at, BIO, windows, 1)([{"extract": first}, {"extract": second}])
    (found,) = msgspec.msgpack.decode(answer)["entities"]
    assert (found["text"], found["start"], found["end"]) == ("c d e", 4, 9)


def test_entities_equal_the_reference() -> None:
    """Random labels of one-token words, which touch nowhere."""
    from transformers import BertConfig
    from transformers.pipelines.token_classification import (
        AggregationStrategy,
        TokenClassificationPipeline,
    )

    pipeline: Any = TokenClassificationPipeline.__new__(TokenClassificationPipeline)

    class Model:
        config = BertConfig(id2label=dict(enumerate(LABELS)))

    class Tokenizer:
        def convert_tokens_to_string(self, tokens: list[str]) -> str:
            return " ".join(tokens)

    pipeline.model, pipeline.tokenizer = Model(), Tokenizer()
    chance = random.Random(7)
    for _ in range(50):
        words = ["".join(chance.choices("abcÄß", k=3)) for _ in range(chance.randrange(1, 30))]
        text = "  ".join(words)
        spans = [match.span() for match in re.finditer(r"\S+", text)]
        rng = np.random.default_rng(chance.randrange(10**6))
        rows = (3 * rng.normal(size=(len(words) + 2, len(LABELS)))).astype(np.float32)
        shifted = np.exp(rows[1:-1] - rows[1:-1].max(axis=1, keepdims=True))
        scores = shifted / shifted.sum(axis=1, keepdims=True)
        before = [
            {"word": w, "scores": s, "start": a, "end": b, "index": i, "is_subword": False}
            for i, (w, s, (a, b)) in enumerate(zip(words, scores, spans, strict=True))
        ]
        expected = [
            entity
            for entity in pipeline.aggregate(before, AggregationStrategy.SIMPLE)
            if entity["entity_group"] != "O"
        ]
        at = located(text, *words)
        answer = Entities(at, BIO, [range(len(words))], 1)([{"extract": rows}])
        found = msgspec.msgpack.decode(answer)["entities"]
        assert [(e["label"], e["start"], e["end"]) for e in found] == [
            (e["entity_group"], e["start"], e["end"]) for e in expected
        ]
        np.testing.assert_allclose(
            [e["score"] for e in found], [e["score"] for e in expected], rtol=1e-6
        )
