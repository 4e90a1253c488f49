"""A prefix's tokens are the whole text's, on real tokenizers of every common kind, and odd text."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
from tokenizers import (
    Encoding,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from shoal.worker.prefix import CHARACTERS_PER_TOKEN, MARGIN, Prefixes

#: GPT-4's and Llama 3's: looks ahead at spaces, takes punctuation together with line ends.
GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LINE = (
    "the quick brown fox jumps over lazy dogs it's we'll DON'T Straße İstanbul ﬁne ＡＢＣ café "
    "cafe\u0301 naïve e\u0301\u0301\u0301 ½ ² 12345678 3.14 $9,99 foo_bar http://x.y/z?q=1#f "
    "日本語テキスト 中文没有空格。 한국어 ไทย मानक हिन्दी עברית العربية 👩‍👩‍👧‍👦 🇩🇪 \u200b\u200d \ufeff \u00ad "
    "[SEP] [CLS] <|endoftext|> ▁ Ġ \x00 \x85 \u2028 ... !!! !!!\n\n \t \r\n \u3000 \u00a0 ﷽ 𝔘𝔫𝔦 Ω Ω"
)
WORDS = _LINE.split(" ")

SPECIAL = ["[UNK]", "<|endoftext|>", "[SEP]"]
_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
SPLITS: dict[str, list[Any]] = {
    "gpt2": [pre_tokenizers.ByteLevel(add_prefix_space=False)],
    "gpt4": [pre_tokenizers.Split(Regex(GPT4), "isolated"), _BYTES],
    "whole": [_BYTES],
}


def odd_text(seed: int, characters: int) -> str:
    """Words of many scripts, parted by spaces of every kind, now and then by none."""
    rng = random.Random(seed)
    parts: list[str] = []
    size = 0
    while size < characters:
        parts += [rng.choice(WORDS), rng.choice([" ", " ", " ", "  ", "     ", "\n", "\n ", ""])]
        size += len(parts[-1]) + len(parts[-2])
    return "".join(parts)


def trained(kind: str) -> Tokenizer:
    """A tokenizer of one of the kinds that models come with; all but BERT's are small."""
    if kind == "bert":
        card = Catalog.load([]).card("all-MiniLM-L6-v2")
        found = Tokenizer.from_file(
            str(fetch(card, cache_dir=None, offline=False) / "tokenizer.json")
        )
        found.no_truncation()
        found.no_padding()
        return found
    corpus = [odd_text(seed, 4000) for seed in range(20)]
    return unigram(corpus) if kind == "unigram" else byte_level(SPLITS[kind], corpus)


def unigram(corpus: list[str]) -> Tokenizer:
    """As sentencepiece models are converted."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=800, special_tokens=SPECIAL, unk_token="[UNK]", show_progress=False
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def byte_level(split: list[Any], corpus: list[str]) -> Tokenizer:
    """As OpenAI's and Meta's are."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(split)
    trainer = trainers.BpeTrainer(
        vocab_size=1200,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


@pytest.fixture(scope="module", params=["bert", "gpt2", "gpt4", "unigram", "whole"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return trained(request.param)


def whole_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("seed", range(40))
def test_the_first_ids_are_those_of_the_whole_text(tokenizer: Tokenizer, seed: int) -> None:
    count = random.Random(seed).choice([1, 2, 30, 254, 255])
    text = odd_text(seed, 12_000 + seed)
    assert Prefixes(tokenizer).first_ids(text, count) == whole_ids(tokenizer, text)[:count]


def test_wherever_the_cut_comes_to_lie(tokenizer: Tokenizer) -> None:
    """The same text moved on by one character at a time."""
    text = odd_text(99, 3 * (CHARACTERS_PER_TOKEN * 20 + 2 * MARGIN))
    prefixes = Prefixes(tokenizer)
    for shift in range(120):
        moved = text[shift:]
        assert prefixes.first_ids(moved, 20) == whole_ids(tokenizer, moved)[:20], shift


def test_what_lies_near_the_cut_is_not_believed(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefixes of 1024 characters, and so many tokens wanted that the last ones come near their end."""
    monkeypatch.setattr("shoal.worker.prefix.CHARACTERS_PER_TOKEN", 0)
    prefixes, text = Prefixes(tokenizer), odd_text(99, 6000)
    for shift in range(0, 120, 10):
        moved = text[shift:]
        whole = whole_ids(tokenizer, moved)
        for characters in range(500, 1100, 20):
            count = len(whole_ids(tokenizer, moved[:characters]))
            assert prefixes.first_ids(moved, count) == whole[:count], (shift, characters)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 30_000,
        " " * 30_000,
        "\n" * 30_000,
        "中" * 30_000,
        "中文，没有空格。" * 4000,
        "👩‍👩‍👧‍👦" * 4000,
        "!?" * 15_000,
        "hello." * 6000,
        ", . " * 8000,
        "1234567890" * 3001,
        "a1-" * 10_000,
        "e\u0301" * 15_000,
        "שלום.עולם." * 3000,
        "".join(random.Random(3).choices("abcdefgh", k=30_000)),
        "one two " + "ab" * 15_000 + " c",
        " " * 20_000 + "\n",
    ],
    ids=[
        "a word",
        "spaces",
        "lines",
        "han",
        "chinese",
        "emoji",
        "marks",
        "points",
        "spaced points",
        "digits",
        "mixed",
        "accents",
        "hebrew",
        "letters",
        "a word behind words",
        "spaces of a line",
    ],
)
def test_texts_that_hardly_part(tokenizer: Tokenizer, text: str) -> None:
    assert Prefixes(tokenizer).first_ids(text, 50) == whole_ids(tokenizer, text)[:50]


def test_separators_are_found_on_the_tokenizer_itself() -> None:
    assert " " in Prefixes(trained("gpt4")).separators
    assert Prefixes(trained("unigram")).separators == " "
    assert Prefixes(trained("whole")).separators == ""
    assert Prefixes(Tokenizer(models.BPE())).separators == ""


class Counting:
    """A tokenizer that counts the characters it is shown."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self.shown = tokenizer, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def encode_batch(self, texts: list[str], **how: Any) -> list[Encoding]:
        self.shown += sum(map(len, texts))
        return self._tokenizer.encode_batch(texts, **how)

    def encode_batch_fast(self, texts: list[str], **how: Any) -> list[Encoding]:
        self.shown += sum(map(len, texts))
        return self._tokenizer.encode_batch_fast(texts, **how)


def shown(tokenizer: Tokenizer, text: str) -> int:
    counting = Counting(tokenizer)
    Prefixes(counting).first_ids(text, 255)  # type: ignore[arg-type]
    return counting.shown


def test_of_five_megabytes_few_are_read(tokenizer: Tokenizer) -> None:
    if not Prefixes(tokenizer).separators:
        return  # shown the whole text, in a thread of its own
    assert shown(tokenizer, (odd_text(7, 100_000) * 60)[:5_400_000]) < 50_000


@pytest.mark.parametrize("kind", ["gpt2", "gpt4"])
def test_so_of_those_without_separators_where_the_tokenizer_parts_them(kind: str) -> None:
    assert shown(trained(kind), "a1-" * 1_800_000) < 50_000


@pytest.mark.parametrize("kind", ["bert", "gpt2", "gpt4", "whole", "unigram"])
def test_so_of_one_word(kind: str) -> None:
    letters = "".join(random.Random(3).choices("abcdefgh", k=1000))
    assert shown(trained(kind), letters * 5400) < 200_000


def test_other_threads_run_meanwhile() -> None:
    prefixes, text = Prefixes(trained("gpt4")), odd_text(7, 100_000) * 20
    ran, over = 0, threading.Event()

    def run() -> None:
        nonlocal ran
        while not over.wait(0.001):
            ran += 1

    other = threading.Thread(target=run)
    other.start()
    prefixes.first_ids(text, 50_000)  # takes a second
    during = ran
    over.set()
    other.join()
    assert during > 200
