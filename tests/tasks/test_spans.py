"""Logits of spans to entities: which spans are told, where they overlap, and in windows."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest

from shoal.tasks.spans import MOST, Asked, Spans, Words

TEXT = "Ada Lovelace of London"
STARTS, ENDS = [0, 4, 13, 16], [3, 12, 15, 22]
WIDTH = 3
#: In the order of a row: by length, then by first word.
SPANS = [(s, s + k) for k in range(WIDTH) for s in range(4 - k)]
LABELS = ("person", "place")


def spans(**changes: object) -> Spans:
    words = Words(TEXT, np.array(STARTS), np.array(ENDS))
    made = Spans(words, WIDTH, (Asked(LABELS, [range(4)]),))
    return msgspec.structs.replace(made, **changes)


def row(scores: dict[tuple[int, int, str], float]) -> dict[str, np.ndarray]:
    """Logits, the sigmoid of which are these scores; of the others 0.01."""
    said = np.full((len(SPANS), len(LABELS)), 0.01)
    for (first, last, label), score in scores.items():
        said[SPANS.index((first, last)), LABELS.index(label)] = score
    return {"extract": np.log(said / (1 - said)).astype(np.float32).ravel()}


def found(asked: Spans, *rows: dict[str, np.ndarray]) -> list[tuple[str, str, float]]:
    return [(e.text, e.label, round(e.score, 3)) for e in asked.entities(rows)]


def test_what_is_told_of_an_entity() -> None:
    answer = msgspec.msgpack.decode(spans()([row({(3, 3, "place"): 0.9, (0, 1, "person"): 0.75})]))
    (ada, london) = answer["entities"]
    assert ada.pop("score") == pytest.approx(0.75)
    assert ada == {"text": "Ada Lovelace", "label": "person", "start": 0, "end": 12}
    assert (london["text"], london["start"], london["end"]) == ("London", 16, 22)


def test_the_likelier_of_two_that_overlap_is_told() -> None:
    said = row({(0, 1, "person"): 0.7, (1, 3, "place"): 0.8, (0, 0, "person"): 0.6})
    assert found(spans(), said) == [("Ada", "person", 0.6), ("Lovelace of London", "place", 0.8)]
    assert found(spans(threshold=0.65), said) == [("Lovelace of London", "place", 0.8)]


def test_of_equals_the_first_is_told() -> None:
    said = row({(1, 2, "place"): 0.75, (0, 1, "place"): 0.75, (0, 1, "person"): 0.75})
    assert found(spans(), said) == [("Ada Lovelace", "person", 0.75)]


def test_several_labels_of_one_span() -> None:
    said = row({(0, 1, "person"): 0.9, (0, 1, "place"): 0.6, (0, 0, "place"): 0.55})
    assert found(spans(), said) == [("Ada Lovelace", "person", 0.9)]
    assert found(spans(multi_label=True), said) == [
        ("Ada Lovelace", "person", 0.9),
        ("Ada Lovelace", "place", 0.6),
    ]


def test_spans_inside_others() -> None:
    said = row({(1, 3, "person"): 0.9, (3, 3, "place"): 0.8, (0, 1, "place"): 0.7})
    assert found(spans(nested=True), said) == [
        ("Lovelace of London", "person", 0.9),
        ("London", "place", 0.8),
    ]
    around = row({(1, 1, "person"): 0.9, (0, 1, "place"): 0.8, (1, 2, "place"): 0.7})
    # Each of the last two has the first inside; they cross each other.
    assert [e[0] for e in found(spans(nested=True), around)] == ["Ada Lovelace", "Lovelace"]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("multi_label", [False, True])
def test_greedy_choice_equals_the_reference_written_out(nested: bool, multi_label: bool) -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        said = {"extract": rng.normal(size=len(SPANS) * 2).astype(np.float32)}
        scores = 1 / (1 + np.exp(-said["extract"].reshape(-1, 2)))
        order = sorted(
            (
                (-score, *span, LABELS[label])
                for span, both in zip(SPANS, scores.tolist(), strict=True)
                for label, score in enumerate(both)
                if score >= 0.5
            ),
        )
        kept: list[tuple[int, int, str]] = []
        for _, first, last, label in order:
            if not any(excludes((first, last), other[:2], nested, multi_label) for other in kept):
                kept.append((first, last, label))
        expected = [(TEXT[STARTS[a] : ENDS[b]], label) for a, b, label in sorted(kept)]
        made = spans(nested=nested, multi_label=multi_label)
        assert [(e[0], e[1]) for e in found(made, said)] == expected


def excludes(one: tuple[int, int], other: tuple[int, int], nested: bool, multi_label: bool) -> bool:
    if one == other:
        return not multi_label
    if one[0] > other[1] or other[0] > one[1]:
        return False
    inside = any(a[0] <= b[0] and b[1] <= a[1] for a, b in itertools.permutations([one, other]))
    return not (nested and inside)


def test_labels_that_were_asked_in_several_sequences() -> None:
    asked = (Asked(("person",), [range(4)]), Asked(("place",), [range(4)]))
    both = row({(0, 1, "person"): 0.9, (0, 0, "place"): 0.95, (3, 3, "place"): 0.7})
    first, second = both["extract"].reshape(-1, 2).T
    made = spans(asked=asked)
    assert found(made, {"extract": first}, {"extract": second}) == [
        ("Ada", "place", 0.95),
        ("London", "place", 0.7),
    ]


def test_in_windows_a_span_is_that_of_the_window_it_lies_in_the_middle_of() -> None:
    """Both windows hold the second and the third word; the middle lies between them."""
    windows = [range(3), range(1, 4)]
    made = spans(asked=(Asked(("place",), windows),), width=2)
    inner = [(0, 0), (1, 1), (2, 2), (0, 1), (1, 2)]

    def said(chosen: tuple[int, int]) -> dict[str, np.ndarray]:
        return {"extract": np.array([2.0 if s == chosen else -9.0 for s in inner], np.float32)}

    nothing = said((9, 9))
    assert [e[0] for e in found(made, said((1, 1)), nothing)] == ["Lovelace"]
    assert found(made, said((2, 2)), nothing) == []
    assert found(made, nothing, said((0, 0))) == []
    assert [e[0] for e in found(made, nothing, said((1, 1)))] == ["of"]
    # One across the middle is told by one of them alone.
    assert [e[0] for e in found(made, said((1, 2)), nothing)] == ["Lovelace of"]
    assert found(made, nothing, said((0, 1))) == []


def test_no_words_no_entities() -> None:
    empty = Words("", np.zeros(0, np.int64), np.zeros(0, np.int64))
    made = Spans(empty, WIDTH, (Asked(LABELS, [range(0)]),))
    assert made.entities([{"extract": np.zeros(0, np.float32)}]) == []


def test_only_the_likeliest_of_very_many_are_looked_at() -> None:
    words = np.arange(MOST)
    made = Spans(Words("x" * MOST, words, words + 1), 1, (Asked(LABELS, [range(MOST)]),), 0.0, True)
    assert len(made.entities([{"extract": np.zeros(2 * MOST, np.float32)}])) == MOST
