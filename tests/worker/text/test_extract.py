"""Texts that something is read from, with tokenizers that change them, short, long and wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from shoal.catalog.card import Card, Source
from shoal.catalog.tasks import ExtractTask, Tasks
from shoal.errors import InvalidItem, InvalidRequest, ModelLoadFailed, ShoalError, TooManyTokens
from shoal.tasks.encode import Item, Media
from shoal.tasks.windows import MOST
from shoal.values import ExtractParams
from shoal.worker.prepared import Prepared
from shoal.worker.text import TextPreparer
from tests.worker.text.conftest import Save, bert_like, roberta_like

LIMIT = 14
LABELS = ["O", "B-X", "I-X"]


def preparer(folder: Path, head: str, labels: list[str] | None = None, **task: Any) -> TextPreparer:
    extract = ExtractTask(head, LABELS if labels is None else labels, **task)  # type: ignore[arg-type]
    card = Card("tiny", Source(dir="."), "bert", Tasks(extract=extract), max_tokens=LIMIT)
    return TextPreparer(card, folder)


def one(preparer: TextPreparer, item: Item, **params: Any) -> Prepared:
    (out,) = preparer.prepare([item], ExtractParams(**params))
    if isinstance(out, ShoalError):
        raise out
    return out


def ids(prepared: Prepared) -> list[list[int]]:
    return [part.ids.tolist() for part in prepared.sequences if part.ids is not None]


def told(prepared: Prepared, rows: list[np.ndarray[Any, Any]]) -> Any:
    assert prepared.finish is not None
    answer = prepared.finish([{"extract": row} for row in rows], ())
    assert isinstance(answer, bytes)
    return msgspec.msgpack.decode(answer)


def entities_where(prepared: Prepared, tokenizer: Tokenizer, words: set[str]) -> list[str]:
    """What is told where the model takes exactly the tokens of these words for an entity."""
    wanted = {tokenizer.token_to_id(word) for word in words}
    rows = [
        np.array([[0.0, 0.0, 9.0] if token in wanted else [9.0, 0.0, 0.0] for token in sequence])
        for sequence in ids(prepared)
    ]
    found = told(prepared, rows)["entities"]
    return [f"{e['text']}@{e['start']}" for e in found]


def test_offsets_are_those_of_the_callers_text_however_it_is_normalised(save: Save) -> None:
    """Lower case, no accents, no control characters; emoji are one code point each."""
    tokenizer = bert_like()
    extractor = preparer(save(tokenizer), "token-labels")
    text = "A \U0001f600 Re\u0301sume\u0301, R\u00c9SUM\u00c9\u0000 unafraid\u2009BERLIN."
    prepared = one(extractor, text)
    found = entities_where(prepared, tokenizer, {"resume", "berlin"})
    assert found == ["Re\u0301sume\u0301@4", "R\u00c9SUM\u00c9@14", "BERLIN@31"]
    assert entities_where(prepared, tokenizer, {"##afraid", "un"}) == ["unafraid@22"]


def test_offsets_where_one_character_becomes_several(save: Save) -> None:
    vocabulary = {"fi": 0, "fish": 1, "3": 2, "?": 3}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    extractor = preparer(save(tokenizer), "token-labels")
    prepared = one(extractor, "x \ufb01sh \u2462 \ufb01")
    assert ids(prepared) == [[3, 1, 2, 0]]
    assert entities_where(prepared, tokenizer, {"fish"}) == ["\ufb01sh@2"]
    assert entities_where(prepared, tokenizer, {"3"}) == ["\u2462@6"]
    assert entities_where(prepared, tokenizer, {"fi"}) == ["\ufb01@8"]


def test_long_texts_are_read_whole_in_windows(save: Save) -> None:
    tokenizer = bert_like()
    extractor = preparer(save(tokenizer), "token-labels")
    text = "a fish swims " * 10 + "berlin"
    prepared = one(extractor, text, truncate=False)
    sequences = ids(prepared)
    assert len(sequences) == 4
    assert all(len(sequence) <= LIMIT for sequence in sequences)
    assert all(sequence[0] == 1 and sequence[-1] == 2 for sequence in sequences)
    assert prepared.length == sum(map(len, sequences))
    assert not prepared.truncated
    assert entities_where(prepared, tokenizer, {"berlin"}) == [f"berlin@{len(text) - 6}"]
    assert len(entities_where(prepared, tokenizer, {"fish"})) == 10


def test_texts_beyond_all_windows_are_cut_and_say_so(save: Save) -> None:
    tokenizer = bert_like()
    extractor = preparer(save(tokenizer), "token-labels")
    for repeats in (1_000, 100_000):
        prepared = one(extractor, "a fish " * repeats)
        assert prepared.truncated
        assert len(prepared.parts) == MOST
        with pytest.raises(TooManyTokens):
            one(extractor, "a fish " * repeats, truncate=False)


def test_an_empty_text_has_no_entities(save: Save) -> None:
    tokenizer = bert_like()
    prepared = one(preparer(save(tokenizer), "token-labels"), "")
    assert ids(prepared) == [[1, 2]]
    assert entities_where(prepared, tokenizer, {"fish"}) == []


def test_labels_of_a_whole_text(save: Save) -> None:
    extractor = preparer(save(bert_like()), "sequence-labels", ["low", "high"])
    prepared = one(extractor, "a fish swims", threshold=0.6)
    assert ids(prepared) == [[1, 5, 6, 8, 2]]
    (label,) = told(prepared, [np.array([0.0, 1.0])])["labels"]
    assert label["label"] == "high"
    assert label["score"] == pytest.approx(0.7310586)
    assert one(extractor, "a fish " * 30).truncated
    with pytest.raises(TooManyTokens):
        one(extractor, "a fish " * 30, truncate=False)


@pytest.mark.parametrize("kind", [bert_like, roberta_like])
def test_zero_shot_pairs_are_those_of_the_reference(kind: Any, save: Save) -> None:
    names = ["contradiction", "neutral", "entailment"]
    extractor = preparer(save(kind()), "nli", names, template="a {label} swims")
    reference = PreTrainedTokenizerFast(tokenizer_object=kind())  # type: ignore[no-untyped-call]
    labels = ("fish", "bird", "fish")
    for text in ("", "a bird", "a bird swims a fish " * 4):
        prepared = one(extractor, text, labels=labels)
        claims = ["a fish swims", "a bird swims"]
        expected = reference(
            [text] * 2,
            claims,
            truncation="only_first",
            max_length=LIMIT,
            return_token_type_ids=True,
        )
        assert ids(prepared) == expected["input_ids"]
        types = [[int(0 < part.split <= i) for i in range(part.length)] for part in prepared.parts]
        assert types == expected["token_type_ids"]
        assert prepared.truncated == (len(text) > 50)
        assert prepared.length == sum(map(len, ids(prepared)))
    found = told(one(extractor, "a", labels=labels), [np.zeros(3), np.array([0, 0, 1.0])])
    assert [label["label"] for label in found["labels"]] == ["bird", "fish"]


@pytest.mark.parametrize(
    ("params", "said"),
    [({}, "give `labels`"), ({"labels": ("fish " * 30,)}, "leaves no room")],
)
def test_zero_shot_needs_labels(save: Save, params: dict[str, Any], said: str) -> None:
    extractor = preparer(save(bert_like()), "nli", ["contradiction", "entailment"])
    with pytest.raises(InvalidRequest, match=said) as refused:
        one(extractor, "a", **params)
    assert len(refused.value.message) < 200  # it is told with each item


@pytest.mark.parametrize("head", ["token-labels", "sequence-labels"])
def test_labels_that_the_model_has_not(save: Save, head: str) -> None:
    extractor = preparer(save(bert_like()), head, ["B-fish", "B-bird", "O"])
    with pytest.raises(InvalidRequest, match=r"no label 'fisch' \(did you mean"):
        one(extractor, "a", labels=("fisch",))
    with pytest.raises(InvalidRequest, match=r"no label 'x{80}'"):
        one(extractor, "a", labels=("x" * 60_000,))


@pytest.mark.parametrize("head", ["token-labels", "sequence-labels", "nli"])
def test_only_texts_are_read(save: Save, head: str) -> None:
    extractor = preparer(save(bert_like()), head, ["contradiction", "entailment"])
    labels = ("a",) if head == "nli" else None
    items: list[Item] = ["a", [4, 5], "fish", Media(b"x")]
    out = extractor.prepare(items, ExtractParams(labels))
    assert [type(item) for item in out] == [Prepared, InvalidItem, Prepared, InvalidItem]
    good = [item for item in out if isinstance(item, Prepared)]
    assert [len(ids(item)[0]) for item in good] == [len(ids(good[0])[0])] * 2


def test_labels_come_from_the_models_own_config(save: Save) -> None:
    folder = save(bert_like())
    with pytest.raises(ModelLoadFailed, match="no id2label"):
        preparer(folder, "sequence-labels", [])
    config = {"id2label": {"10": "ten", "2": "two"}, "problem_type": "multi_label_classification"}
    (folder / "config.json").write_text(json.dumps(config))
    prepared = one(preparer(folder, "sequence-labels", []), "a")
    found = told(prepared, [np.array([0.0, 1.0])])["labels"]
    assert {label["label"]: round(label["score"], 4) for label in found} == {
        "two": 0.5,
        "ten": 0.7311,
    }
    (folder / "config.json").write_text("[")
    with pytest.raises(ModelLoadFailed, match=r"config\.json cannot be read"):
        preparer(folder, "sequence-labels", [])


def test_a_model_of_entailment_must_say_which_label_is_that(save: Save) -> None:
    with pytest.raises(ModelLoadFailed, match="named entailment"):
        preparer(save(bert_like()), "nli", ["LABEL_0", "LABEL_1"])
