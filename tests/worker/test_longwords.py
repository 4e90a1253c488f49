"""Words that WordPiece has no token for: shortened, and yet the same tokens."""

from __future__ import annotations

import random

import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from shoal.worker.longwords import LongWords


def wordpiece(*added: str) -> Tokenizer:
    """As BERT's, with a token for each letter, so that a word that is not too long has many."""
    names = ["[UNK]", *"abcdefghijklmnopqrstuvwxyz0123456789", *"中文.,-!"]
    pieces = [f"##{name}" for name in names[1:37]]
    vocab = {name: n for n, name in enumerate([*names, *pieces])}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_tokens([AddedToken(content) for content in added])
    return tokenizer


#: What may stand between long words, or in them.
PARTS = [
    "a",
    "É",
    "я",
    "ß",
    "İ",
    "7",
    " ",
    ".",
    "中",
    "\u0301",
    "\u200b",
    "½",
    "x]",
    "[x",
    "़",
    "가",
]


def odd(seed: int) -> str:
    """Runs of 1 to 900 of each."""
    rng = random.Random(seed)
    parts = (rng.choice(PARTS) * rng.choice([1, 1, 2, 90, 101, 300, 900]) for _ in range(40))
    return "".join(parts)


@pytest.mark.parametrize("added", [(), ("[x", "x]"), ("aa",)])
@pytest.mark.parametrize("seed", range(20))
def test_the_tokens_are_the_same(added: tuple[str, ...], seed: int) -> None:
    tokenizer, text = wordpiece(*added), odd(seed)
    shorter = LongWords(tokenizer).shortened(text)
    assert (len(shorter) < len(text)) == (added != ("aa",)), "which may stand in a word"
    assert tokenizer.encode(shorter).ids == tokenizer.encode(text).ids


def test_a_word_of_megabytes_is_as_long_as_is_looked_at() -> None:
    words = LongWords(wordpiece())
    assert len(words.shortened("Wörter" * 1_000_000)) == 101 + 64
    assert words.shortened("a" * 165) == "a" * 165
    assert words.shortened("中" * 1000) == "中" * 1000


def test_a_tokenizer_that_parts_words_keeps_them() -> None:
    tokenizer = wordpiece()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Digits(individual_digits=True)]
    )
    text = "a1" * 1000 + "b" * 1000
    assert LongWords(tokenizer).shortened(text) == "a1" * 1000 + "b" * 165
    assert LongWords(Tokenizer(models.BPE())).shortened(text) == text
