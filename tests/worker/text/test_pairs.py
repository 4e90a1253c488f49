"""Pairs equal those of `transformers`, which cross-encoders were trained and are run with."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from shoal.catalog.card import Card, Source
from shoal.catalog.tasks import ScoreTask, Tasks
from shoal.errors import InvalidItem, InvalidRequest, ModelLoadFailed, ShoalError, TooManyTokens
from shoal.tasks.encode import Item, Media
from shoal.values import ScoreParams
from shoal.worker.prepared import Prepared
from shoal.worker.text import TextPreparer
from tests.worker.text.conftest import Save, bare, bert_like, roberta_like

LIMIT = 9


def card_of(task: ScoreTask) -> Card:
    return Card("tiny", Source(dir="."), "bert", Tasks(score=task), max_tokens=LIMIT)


CARD = card_of(ScoreTask())


def scored(
    preparer: TextPreparer, query: str, *documents: Item, truncate: bool = True
) -> list[Prepared | ShoalError]:
    return preparer.prepare([*documents], ScoreParams(b"", truncate=truncate), query)


def one(preparer: TextPreparer, query: str, document: Item, *, truncate: bool = True) -> Prepared:
    (out,) = scored(preparer, query, document, truncate=truncate)
    if isinstance(out, ShoalError):
        raise out
    assert out.ids is not None
    return out


TEXTS = ["", "a", "fish swims", "a bird", "a fish swims a bird", "bird " * 9, "fish " * 30]


@pytest.mark.parametrize("kind", [bert_like, roberta_like, bare])
def test_pairs_are_those_of_the_reference(kind: Callable[[], Tokenizer], save: Save) -> None:
    preparer = TextPreparer(CARD, save(kind()))
    reference = PreTrainedTokenizerFast(tokenizer_object=kind())  # type: ignore[no-untyped-call]
    special = len(reference("a", "a")["input_ids"]) - 2
    for query in TEXTS[1:]:
        if len(reference.tokenize(query)) >= LIMIT - special:
            continue  # the reference cuts no document to nothing
        for document in TEXTS:
            expected = reference(
                [query],
                [document],
                truncation="only_second",
                max_length=LIMIT,
                return_token_type_ids=True,
            )
            mine = one(preparer, query, document)
            assert mine.ids is not None
            assert mine.ids.tolist() == expected["input_ids"][0], (query, document)
            assert mine.length == len(mine.ids)
            (types,) = expected["token_type_ids"]
            assert [int(0 < mine.split <= i) for i in range(mine.length)] == types
            (whole,) = reference([query], [document])["input_ids"]
            assert mine.truncated == (len(whole) > LIMIT)


def test_a_query_without_room_for_a_document_has_half(save: Save) -> None:
    preparer = TextPreparer(CARD, save(bert_like()))
    ids = bert_like().get_vocab()
    pair = one(preparer, "fish " * 30, "bird " * 30)
    assert pair.ids is not None
    fish, bird = [ids["fish"]] * 3, [ids["bird"]] * 3
    assert pair.ids.tolist() == [1, *fish, 2, *bird, 2]
    assert pair.truncated


def test_what_must_not_be_cut_says_how_long_it_is(save: Save) -> None:
    preparer = TextPreparer(CARD, save(bert_like()))
    assert not one(preparer, "a bird", "a fish swims a", truncate=False).truncated
    with pytest.raises(TooManyTokens, match=r"has 10 tokens .* at most 9"):
        one(preparer, "a bird", "a fish swims a bird", truncate=False)
    with pytest.raises(TooManyTokens, match=r"more than 9 tokens"):
        one(preparer, "a bird", "a fish " * 20_000, truncate=False)


def test_documents_are_cut_to_what_the_caller_asks(save: Save) -> None:
    preparer = TextPreparer(CARD, save(bert_like()))
    params = ScoreParams(b"", document_tokens=2)
    long, short = preparer.prepare(["a fish swims a", "a fish"], params, "bird")
    assert isinstance(long, Prepared)
    assert isinstance(short, Prepared)
    (whole,) = preparer.prepare(["a fish"], ScoreParams(b""), "bird")
    assert isinstance(whole, Prepared)
    assert long.ids is not None and short.ids is not None and whole.ids is not None
    assert long.ids.tolist() == short.ids.tolist() == whole.ids.tolist()
    assert (long.truncated, short.truncated) == (True, False)


def test_long_documents_are_read_as_far_as_the_model_reads(save: Save) -> None:
    preparer = TextPreparer(CARD, save(bert_like()))
    long = one(preparer, "a bird", "a fish " * 20_000)
    short = one(preparer, "a bird", "a fish a fish a fish")
    assert long.ids is not None
    assert short.ids is not None
    assert long.ids.tolist() == short.ids.tolist()
    assert long.truncated


@pytest.mark.parametrize(
    ("item", "said"), [([4, 5], "text, not token ids"), (Media(b"x"), "no images or audio")]
)
def test_only_texts_are_scored(save: Save, item: Item, said: str) -> None:
    preparer = TextPreparer(CARD, save(bert_like()))
    good, wrong, last = scored(preparer, "a", "fish", item, "bird")
    assert isinstance(wrong, InvalidItem)
    assert said in wrong.message
    assert isinstance(good, Prepared)
    assert isinstance(last, Prepared)


def test_a_query_that_is_no_text_fails_all(save: Save) -> None:
    preparer = TextPreparer(CARD, save(bert_like()))
    with pytest.raises(InvalidItem, match="query must be a text"):
        preparer.prepare(["a", "fish"], ScoreParams(b""), [4, 5])


def test_a_template_is_one_text_and_only_its_document_is_cut(save: Save) -> None:
    card = card_of(ScoreTask("yes-no", template="query: {query} a {document} swims"))
    preparer = TextPreparer(card, save(roberta_like()))
    ids = roberta_like().get_vocab()

    def words(*names: str) -> list[int]:
        return [ids[name] for name in names]

    whole = one(preparer, "bird", "fish")
    assert whole.ids is not None
    assert whole.ids.tolist() == words("<s>", "query:", "bird", "a", "fish", "swims", "</s>")
    assert whole.split == 0
    cut = one(preparer, "bird", "fish " * 9)
    assert cut.ids is not None
    assert cut.ids.tolist() == words(
        "<s>", "query:", "bird", "a", "fish", "fish", "fish", "swims", "</s>"
    )
    assert cut.truncated
    with pytest.raises(TooManyTokens):
        one(preparer, "bird", "fish " * 9, truncate=False)


def test_a_template_says_what_the_caller_looks_for(save: Save) -> None:
    template = "{instruction} query: {query} a {document} swims"
    task = ScoreTask("yes-no", template=template, default_instruction="bird")
    preparer = TextPreparer(card_of(task), save(roberta_like()))
    tokenizer = roberta_like()

    def read(instruction: str | None, query: str) -> list[str]:
        params = ScoreParams(b"", instruction=instruction)
        (out,) = preparer.prepare(["fish"], params, query)
        assert isinstance(out, Prepared)
        assert out.ids is not None
        return [str(tokenizer.id_to_token(int(number))) for number in out.ids]

    after = ["query:", "a", "a", "fish", "swims", "</s>"]
    assert read(None, "a") == ["<s>", "bird", *after]
    assert read("fish", "a") == ["<s>", "fish", *after]
    with pytest.raises(InvalidRequest, match="no room"):
        read("fish fish fish fish", "a")


def test_a_long_query_is_not_tokenized_whole_for_each_document(save: Save) -> None:
    card = card_of(ScoreTask("yes-no", template="query: {query} a {document} swims"))
    preparer = TextPreparer(card, save(roberta_like()))
    query = "bird fish " * 200_000
    start = time.process_time()
    roberta_like().encode_batch_fast([query])
    whole_s, start = time.process_time() - start, time.process_time()
    outcomes = scored(preparer, query, *(["fish"] * 30))
    assert time.process_time() - start < 3 * whole_s
    assert [o.ids.tolist() for o in outcomes if isinstance(o, Prepared) and o.ids is not None] == (
        [one(preparer, "bird fish " * 9, "fish").ids.tolist()] * 30  # type: ignore[union-attr]
    )


@pytest.mark.parametrize("template", [None, "{document}", "{document} {query}"])
def test_a_template_needs_query_and_document(save: Save, template: str | None) -> None:
    folder: Path = save(bert_like())
    with pytest.raises(ModelLoadFailed, match="template"):
        TextPreparer(card_of(ScoreTask("yes-no", template=template)), folder)
