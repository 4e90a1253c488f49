"""Tokens and texts equal those of `transformers`."""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from shoal.catalog.card import Card, Source
from shoal.catalog.tasks import Dense, EncodeTask, Tasks
from shoal.errors import InvalidItem
from shoal.tasks.encode import Item, Media
from shoal.values import TokenizeParams
from shoal.wire.objects import Tokenized
from shoal.worker.prepared import Prepared
from shoal.worker.text import TextPreparer
from tests.worker.text.conftest import Save, bare, bert_like, roberta_like

TEXTS = ["", "a", "fish swims.", "a bird  a fish", "fish " * 30, "zürich a 𝄞 fish"]
PROMPTS = {"query": "bird "}
CARD = Card(
    "tiny",
    Source(dir="."),
    "bert",
    Tasks(EncodeTask(dense=Dense(4), prompts=PROMPTS)),
    max_tokens=6,
)


def told(folder: Path, item: Item, **params: object) -> Tokenized:
    (out,) = TextPreparer(CARD, folder).prepare([item], TokenizeParams(**params))  # type: ignore[arg-type]
    assert isinstance(out, Prepared), out
    assert out.answer is not None
    assert out.runs == 0
    return msgspec.msgpack.decode(out.answer, type=Tokenized)


@pytest.mark.parametrize("kind", [bert_like, roberta_like, bare])
@pytest.mark.parametrize("special", [True, False])
def test_tokens_are_those_of_the_reference(
    kind: Callable[[], Tokenizer], special: bool, save: Save
) -> None:
    folder = save(kind())
    reference = PreTrainedTokenizerFast(tokenizer_object=kind())  # type: ignore[no-untyped-call]
    for text in TEXTS:
        expected = reference(
            text,
            add_special_tokens=special,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
        )
        tokens = told(folder, text, special=special).tokens
        assert tokens is not None
        assert [token.id for token in tokens] == expected["input_ids"]
        mask, offsets = expected["special_tokens_mask"], expected["offset_mapping"]
        for token, is_special, (start, end) in zip(tokens, mask, offsets, strict=True):
            assert token.special == bool(is_special)
            if is_special:
                assert (token.start, token.stop) == (None, None)
                assert token.text == reference.convert_ids_to_tokens(token.id)
            else:
                assert token.text == text[start:end]
                assert text.encode()[token.start : token.stop].decode() == token.text
        for skipped in (True, False):
            ids = expected["input_ids"]
            assert told(folder, ids, special=not skipped).text == reference.decode(
                ids, skip_special_tokens=skipped, clean_up_tokenization_spaces=False
            )


def test_a_prompt_is_tokenized_too(save: Save) -> None:
    folder = save(bert_like())
    tokens = told(folder, "fish", special=False, prompt="query").tokens
    assert tokens is not None
    assert [(token.text, token.start) for token in tokens] == [("bird", 0), ("fish", 5)]


def test_what_is_no_text_and_no_id_fails_alone(save: Save) -> None:
    preparer = TextPreparer(CARD, save(bert_like()))
    good, media, outside = preparer.prepare(["a", Media(b"x"), [4, 10**6]], TokenizeParams())
    assert isinstance(good, Prepared)
    assert isinstance(media, InvalidItem)
    assert isinstance(outside, InvalidItem)
    assert "outside the vocabulary" in outside.message


def test_what_is_too_long_is_refused_before_it_is_tokenized(save: Save) -> None:
    """Sixteen megabytes of words, which a body may have, would take gigabytes here."""
    preparer = TextPreparer(CARD, save(bert_like()))
    items: list[Item] = ["fish", "a " * (1 << 23), [5] * (1 << 20), "a bird"]
    start = time.process_time()
    bert_like().encode_batch_fast(["a " * (1 << 19)])
    a_sixteenth_s, start = time.process_time() - start, time.process_time()
    first, long, ids, last = preparer.prepare(items, TokenizeParams())
    assert time.process_time() - start < a_sixteenth_s
    assert isinstance(first, Prepared) and isinstance(last, Prepared)
    assert first.length == 3 and last.length == 4
    assert isinstance(long, InvalidItem) and isinstance(ids, InvalidItem)
    assert "16777216 characters, and at most 524288" in long.message
    assert "1048576 token ids" in ids.message
