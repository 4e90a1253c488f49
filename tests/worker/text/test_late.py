"""Queries and documents of models that compare late: markers, filled queries, tokens without vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.catalog.card import Card, Source
from shoal.catalog.tasks import Dense, EncodeTask, Multivector, ScoreTask, Tasks
from shoal.errors import InvalidItem, ModelLoadFailed, ShoalError, TooManyTokens
from shoal.tasks.encode import Item, Media
from shoal.tasks.late import Cosine, MaxSim, TokenVectors
from shoal.values import EncodeParams, Params, ScoreParams
from shoal.worker.prepared import Prepared
from shoal.worker.text import TextPreparer
from tests.worker.text.conftest import Save, bare, bert_like

CLS, SEP, MASK, A, FISH, BIRD, SWIMS, DOT = 1, 2, 4, 5, 6, 7, 8, 11
QUERY_MARK, DOCUMENT_MARK = 16, 17
PROMPTS = {"query": "[Q] ", "document": "[D]"}


def preparer(save: Save, **multivector: Any) -> TextPreparer:
    """Its markers stand in the vocabulary, but no tokenizer finds them in a text."""
    tokenizer = bert_like()
    tokenizer.add_special_tokens(["[Q] ", "[D]"])
    tokenizer.add_tokens(["query:"])
    folder = save(tokenizer)
    task = EncodeTask(multivector=Multivector(8, **multivector), prompts=PROMPTS)
    tasks = Tasks(encode=task, score=ScoreTask("maxsim"))
    return TextPreparer(Card("late", Source(dir="."), "bert", tasks, max_tokens=12), folder)


def prepared(out: list[Prepared | ShoalError]) -> list[Prepared]:
    assert not [item for item in out if isinstance(item, ShoalError)]
    return [item for item in out if isinstance(item, Prepared)]


def ids(item: Prepared) -> list[int]:
    assert item.ids is not None
    assert item.ids.dtype == "int32"
    assert item.length == len(item.ids)
    return list(map(int, item.ids))


def one(preparer: TextPreparer, text: Item, params: Params) -> Prepared:
    (item,) = prepared(preparer.prepare([text], params))
    return item


def keep_of(item: Prepared) -> list[bool] | None:
    assert isinstance(item.finish, MaxSim | TokenVectors)
    return None if item.finish.keep is None else item.finish.keep.tolist()


def asked(prompt: str | None, *outputs: str, **params: Any) -> EncodeParams:
    return EncodeParams(outputs or ("multivector",), prompt=prompt, **params)


def test_a_marker_stands_behind_the_first_special_token(save: Save) -> None:
    late = preparer(save)
    assert ids(one(late, "a fish", asked("document"))) == [CLS, DOCUMENT_MARK, A, FISH, SEP]
    assert ids(one(late, "a fish", asked("query"))) == [CLS, QUERY_MARK, A, FISH, SEP]
    assert ids(one(late, "a fish", asked(None))) == [CLS, A, FISH, SEP]


def test_queries_are_filled_with_the_mask_token_and_cut_to_as_many(save: Save) -> None:
    late = preparer(save, query_tokens=8)
    query = one(late, "a fish", asked("query"))
    assert ids(query) == [CLS, QUERY_MARK, A, FISH, SEP, MASK, MASK, MASK]
    assert query.seen == 5
    assert not query.truncated
    long = one(late, "a fish " * 5, asked("query"))
    assert ids(long) == [CLS, QUERY_MARK, A, FISH, A, FISH, A, SEP]
    assert long.truncated
    assert long.seen == 0
    with pytest.raises(TooManyTokens, match="at most 8"):
        raise late.prepare(["a fish " * 5], asked("query", truncate=False))[0]  # type: ignore[misc]
    assert ids(one(late, "a fish", asked("document"))) == [CLS, DOCUMENT_MARK, A, FISH, SEP]
    assert len(ids(one(late, "a fish", asked("query", "fde")))) == 8


def test_queries_may_be_cut_alone(save: Save) -> None:
    late = preparer(save, query_tokens=6, fill=False)
    query = one(late, "a fish", asked("query"))
    assert ids(query) == [CLS, QUERY_MARK, A, FISH, SEP]
    assert query.seen == 0
    long = one(late, "a fish " * 5, asked("query"))
    assert ids(long) == [CLS, QUERY_MARK, A, FISH, A, SEP]
    assert long.truncated
    assert len(ids(one(late, "a fish " * 5, asked("document")))) == 12


@pytest.mark.parametrize("prompt", ["[Q] query: ", "[D] query:"])
def test_a_prompt_may_stand_behind_a_marker(save: Save, prompt: str) -> None:
    """The one marker holds the space behind it, and the other does not."""
    tokenizer = bert_like()
    tokenizer.add_special_tokens(["[Q] ", "[D]"])
    task = EncodeTask(multivector=Multivector(8), prompts={"query": prompt})
    late = TextPreparer(Card("l", Source(dir="."), "bert", Tasks(encode=task), 12), save(tokenizer))
    mark = QUERY_MARK if prompt.startswith("[Q]") else DOCUMENT_MARK
    text = bert_like().encode("query: fish").ids
    assert ids(one(late, "fish", asked("query"))) == [CLS, mark, *text[1:]]


def test_some_tokens_of_documents_get_no_vector(save: Save) -> None:
    late = preparer(save, skip=[".", "no token"])
    document = one(late, "a fish.", asked("document"))
    assert ids(document)[-2] == DOT
    assert keep_of(document) == [True, True, True, True, False, True]
    assert keep_of(one(late, "a fish.", asked("query"))) is None
    assert isinstance(document.finish, TokenVectors)
    assert not document.finish.query


def test_documents_are_scored_with_one_sequence_for_the_query(save: Save) -> None:
    late = preparer(save, query_tokens=6, skip=["."])
    out = late.prepare(["a fish.", [4, 5], "bird", Media(b"x")], ScoreParams(b""), "a bird")
    first, tokens, second, media, query = out
    assert isinstance(tokens, InvalidItem)
    assert isinstance(media, InvalidItem)
    first, second, query = prepared([first, second, query])
    assert ids(first) == [CLS, DOCUMENT_MARK, A, FISH, DOT, SEP]
    assert ids(second) == [CLS, DOCUMENT_MARK, BIRD, SEP]
    assert ids(query) == [CLS, QUERY_MARK, A, BIRD, SEP, MASK]
    assert keep_of(first) == [True, True, True, True, False, True]
    assert query.finish is None


def test_a_query_that_must_not_be_cut_fails_all(save: Save) -> None:
    with pytest.raises(TooManyTokens):
        preparer(save).prepare(["a"], ScoreParams(b"", truncate=False), "fish " * 20)


def test_a_text_prompt_is_no_marker(save: Save) -> None:
    task = EncodeTask(multivector=Multivector(8, query_tokens=8), prompts={"query": "query: "})
    tasks = Tasks(encode=task, score=ScoreTask("maxsim"))
    late = TextPreparer(Card("l", Source(dir="."), "bert", tasks, 12), save(bert_like()))
    text = bert_like().encode("query: fish").ids
    assert ids(one(late, "fish", asked("query"))) == text + [MASK] * (8 - len(text))


def test_without_a_mask_token_queries_cannot_be_filled(save: Save) -> None:
    folder: Path = save(bare())
    task = EncodeTask(multivector=Multivector(8, query_tokens=8))
    with pytest.raises(ModelLoadFailed, match="mask token"):
        TextPreparer(Card("l", Source(dir="."), "bert", Tasks(encode=task), 12), folder)
    task = EncodeTask(multivector=Multivector(8, query_tokens=8, fill=False))
    TextPreparer(Card("l", Source(dir="."), "bert", Tasks(encode=task), 12), folder)


def test_dense_vectors_are_compared_by_their_cosine(save: Save) -> None:
    task = EncodeTask(dense=Dense(4), prompts={"query": "fish "}, default_prompt=None)
    card = Card("l", Source(dir="."), "bert", Tasks(encode=task, score=ScoreTask("cosine")), 12)
    preparer = TextPreparer(card, save(bert_like()))
    document, query = prepared(preparer.prepare(["a"], ScoreParams(b""), "bird"))
    assert ids(document) == [CLS, A, SEP]
    assert ids(query) == [CLS, FISH, BIRD, SEP]
    assert isinstance(document.finish, Cosine)
    rows = [{"dense": np.array([1.0, 0.0])}]
    assert document.finish(rows, [{"dense": np.array([1.0, 1.0])}]) == {
        "score": pytest.approx(0.5**0.5)
    }


def test_an_instruction_is_the_querys_alone(save: Save) -> None:
    task = EncodeTask(
        multivector=Multivector(8, query_tokens=8),
        prompts={"document": "query: "},
        instruction_prompt="{instruction} query: ",
    )
    tokenizer = bert_like()
    tokenizer.add_tokens(["query:"])
    card = Card("late", Source(dir="."), "bert", Tasks(task, ScoreTask("maxsim")), max_tokens=12)
    texts = TextPreparer(card, save(tokenizer))
    params = ScoreParams(b"", instruction="bird")
    document, query = prepared(texts.prepare(["fish"], params, "a"))
    mark = tokenizer.token_to_id("query:")
    assert ids(document) == [CLS, mark, FISH, SEP]
    assert ids(query) == [CLS, BIRD, mark, A, SEP, MASK, MASK, MASK]
