"""Prompts, words and windows of texts in which labels of the caller's own are looked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from shoal.catalog.card import Card, Source
from shoal.catalog.tasks import ExtractTask, Tasks
from shoal.errors import InvalidItem, InvalidRequest, ModelLoadFailed, ShoalError, TooManyTokens
from shoal.tasks.encode import Item, Media
from shoal.tasks.windows import MOST
from shoal.values import ExtractParams
from shoal.worker.prepared import Prepared
from shoal.worker.text import TextPreparer
from tests.runtimes.torch.card_tokenizers import OF_GLINER
from tests.worker.text.conftest import Save, bert_like

LIMIT = 24
WIDTH = 2
TEXT = "A  un-fish,\n\u00dcber un\u00b2 Re\u0301sume\u0301 \U0001f600 a_b"


def tokenizer_with_markers() -> Tokenizer:
    tokenizer = bert_like()
    tokenizer.add_special_tokens(OF_GLINER)
    return tokenizer


def preparer(
    folder: Path, limit: int = LIMIT, labels: tuple[str, ...] = (), **config: Any
) -> TextPreparer:
    said = {"max_width": WIDTH, "max_len": 10} | config
    (folder / "gliner_config.json").write_text(json.dumps(said))
    task = ExtractTask("spans", list(labels))
    return TextPreparer(
        Card("tiny", Source(dir="."), "bert", Tasks(extract=task), max_tokens=limit), folder
    )


def one(preparer: TextPreparer, item: Item, *labels: str, **params: Any) -> Prepared:
    (out,) = preparer.prepare([item], ExtractParams(labels or None, **params))
    if isinstance(out, ShoalError):
        raise out
    return out


def sequences(prepared: Prepared) -> list[tuple[list[int], list[int]]]:
    found = []
    for part in prepared.sequences:
        assert part.ids is not None
        assert part.marks is not None
        assert len(part.ids) == len(part.marks) == part.length
        found.append((part.ids.tolist(), part.marks.tolist()))
    return found


def told(prepared: Prepared, chosen: dict[str, str]) -> list[tuple[str, str, int]]:
    """What is told where the model takes each of these single words for an entity."""
    asked = prepared.finish
    assert asked is not None
    rows = []
    for group in asked.asked:  # type: ignore[attr-defined]
        for window in group.windows:
            count = len(window)
            said = np.full((2 * count - 1 if count else 0, len(group.labels)), -9.0, np.float32)
            for place, word in enumerate(window):
                at = slice(asked.words.starts[word], asked.words.ends[word])  # type: ignore[attr-defined]
                label = chosen.get(asked.words.text[at])  # type: ignore[attr-defined]
                if label in group.labels:
                    said[place, group.labels.index(label)] = 9.0
            rows.append({"extract": said.ravel()})
    answer = asked(rows, ())
    assert isinstance(answer, bytes)
    found = msgspec.msgpack.decode(answer)["entities"]
    return [(e["text"], e["label"], e["start"]) for e in found]


@pytest.mark.parametrize("pooling", ["first", "last"])
@pytest.mark.parametrize("embed", [True, False])
def test_the_layout_is_that_of_the_reference(save: Save, pooling: str, embed: bool) -> None:
    """Written out with transformers' tokenizer of words, as gliner calls it."""
    extractor = preparer(
        save(tokenizer_with_markers()), 64, subtoken_pooling=pooling, embed_ent_token=embed
    )
    reference = PreTrainedTokenizerFast(tokenizer_object=tokenizer_with_markers())  # type: ignore[no-untyped-call]
    words = [
        "A",
        "un-fish",
        ",",
        "\u00dcber",
        "un\u00b2",
        "Re\u0301sume\u0301",
        "\U0001f600",
        "a_b",
    ]
    prompt = ["<<ENT>>", "a bird", "<<ENT>>", "unafraid", "<<SEP>>"]
    expected = reference(prompt + words, is_split_into_words=True)
    ((ids, marks),) = sequences(one(extractor, TEXT, "a bird", "unafraid"))
    assert ids == expected["input_ids"]
    numbers = [-1 if number is None else number for number in expected.word_ids()]
    firsts = [n for n, word in enumerate(numbers) if word >= 0 and word != numbers[n - 1]]
    lasts = [n for n, word in enumerate(numbers) if word >= 0 and word != numbers[n + 1]]
    stand = {"first": firsts, "last": lasts}[pooling]
    assert [n for n, mark in enumerate(marks) if mark == 1] == [n for n in stand if numbers[n] >= 5]
    labels = [n + (not embed) for n in firsts if numbers[n] in (0, 2)]
    assert [n for n, mark in enumerate(marks) if mark == 2] == labels


def test_entities_lie_in_the_callers_text(save: Save) -> None:
    extractor = preparer(save(tokenizer_with_markers()), 64)
    prepared = one(extractor, TEXT, "x", "y")
    resume = "Re\u0301sume\u0301"
    assert told(prepared, {"un-fish": "x", "a_b": "y", "\u00dcber": "y", resume: "x"}) == [
        ("un-fish", "x", 3),
        ("\u00dcber", "y", 12),
        (resume, "x", 21),
        ("a_b", "y", TEXT.index("a_b")),
    ]


def test_long_texts_are_read_whole_in_windows_of_words(save: Save) -> None:
    extractor = preparer(save(tokenizer_with_markers()))
    text = "a fish swims " * 10 + "berlin"
    prepared = one(extractor, text, "bird", truncate=False)
    found = sequences(prepared)
    assert len(found) == 4
    assert all(len(ids) <= LIMIT and marks.count(1) <= 10 for ids, marks in found)
    assert all(ids[0] == 1 and ids[-1] == 2 and marks.count(2) == 1 for ids, marks in found)
    assert prepared.length == sum(len(ids) for ids, _ in found)
    assert not prepared.truncated
    assert told(prepared, {"berlin": "bird"}) == [("berlin", "bird", len(text) - 6)]
    assert len(told(prepared, {"fish": "bird"})) == 10


def test_texts_beyond_all_windows_are_cut_and_say_so(save: Save) -> None:
    extractor = preparer(save(tokenizer_with_markers()))
    for repeats in (1_000, 100_000):
        prepared = one(extractor, "a fish " * repeats, "bird")
        assert prepared.truncated
        assert len(prepared.parts) == MOST
        with pytest.raises(TooManyTokens):
            one(extractor, "a fish " * repeats, "bird", truncate=False)


@pytest.mark.parametrize("text", ["", " \n", "\u0301"])
def test_a_text_without_words_has_no_entities(save: Save, text: str) -> None:
    prepared = one(preparer(save(tokenizer_with_markers())), text, "bird")
    ((ids, marks),) = sequences(prepared)
    assert marks.count(1) == 0
    assert told(prepared, {}) == []
    assert len(ids) == 5


@pytest.mark.parametrize("pooling", ["first", "last"])
def test_a_word_longer_than_a_window_is_cut_and_stays_one_word(save: Save, pooling: str) -> None:
    extractor = preparer(save(tokenizer_with_markers()), subtoken_pooling=pooling)
    prepared = one(extractor, "fish " + "-".join(["fish"] * 40) + " swims", "bird")
    assert all(len(ids) <= LIMIT for ids, _ in sequences(prepared))
    assert sum(marks.count(1) for _, marks in sequences(prepared)) >= 3
    assert told(prepared, {"swims": "bird"}) == [("swims", "bird", 205)]


def test_more_labels_than_one_prompt_holds_go_in_several(save: Save) -> None:
    extractor = preparer(save(tokenizer_with_markers()))
    labels = ["a", "fish", "bird", "swims", "un", "berlin", "a fish"]
    prepared = one(extractor, "berlin swims", *labels, "a")
    assert [marks.count(2) for _, marks in sequences(prepared)] == [5, 2]
    assert told(prepared, {"berlin": "a fish", "swims": "fish"}) == [
        ("berlin", "a fish", 0),
        ("swims", "fish", 7),
    ]


def test_the_cards_labels_are_looked_for_where_none_are_named(save: Save) -> None:
    extractor = preparer(save(tokenizer_with_markers()), labels=("bird",))
    assert sequences(one(extractor, "a fish")) == sequences(one(extractor, "a fish", "bird"))
    assert sequences(one(extractor, "a fish", "fish")) != sequences(one(extractor, "a fish"))


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ((), "give `labels`"),
        (("fish " * 30,), "leaves no room for a text"),
        (("\u0301",), "no letters that this model knows"),
    ],
)
def test_labels_that_cannot_be_looked_for(save: Save, labels: tuple[str, ...], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        one(preparer(save(tokenizer_with_markers())), "a", *labels)


def test_only_texts_are_read(save: Save) -> None:
    items: list[Item] = ["a", [4, 5], "fish", Media(b"x")]
    out = preparer(save(tokenizer_with_markers())).prepare(items, ExtractParams(("bird",)))
    assert [type(item) for item in out] == [Prepared, InvalidItem, Prepared, InvalidItem]


def test_a_tokenizer_without_the_tokens_of_prompts_says_what_to_do(save: Save) -> None:
    with pytest.raises(ModelLoadFailed, match="no token <<ENT>>; save it anew with gliner"):
        preparer(save(bert_like()))
    folder = save(tokenizer_with_markers())
    with pytest.raises(ModelLoadFailed, match=r"<<ENT>> is 17, not 4 as gliner_config\.json says"):
        preparer(folder, class_token_index=4)
    preparer(folder, class_token_index=17)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("span_mode", "token_level"),
        ("subtoken_pooling", "mean"),
        ("words_splitter_type", "spacy"),
        ("labels_encoder", "BAAI/bge-small-en-v1.5"),
    ],
)
def test_what_is_not_computed_is_refused_by_its_key(save: Save, key: str, value: Any) -> None:
    with pytest.raises(ModelLoadFailed, match=rf"gliner_config\.json cannot be read.*{key}"):
        preparer(save(tokenizer_with_markers()), **{key: value})
