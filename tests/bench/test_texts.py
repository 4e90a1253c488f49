import random
import statistics

from tokenizers import Tokenizer

from shoal.bench.texts import MEDIAN_TOKENS, mixed_length, short_length, text
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog


def tokenizer() -> Tokenizer:
    folder = fetch(Catalog.load().card("all-MiniLM-L6-v2"), cache_dir=None, offline=False)
    found = Tokenizer.from_file(str(folder / "tokenizer.json"))
    found.no_truncation()
    found.no_padding()
    return found


def test_a_seed_gives_the_same_texts() -> None:
    first, second = (text(random.Random(3), 40) for _ in range(2))
    assert first == second != text(random.Random(4), 40)


def test_texts_have_the_tokens_asked_for() -> None:
    rng, tokens = random.Random(1), tokenizer()
    for length in (5, 6, 14, 44, 120, 250):
        seen = [len(tokens.encode(text(rng, length)).ids) for _ in range(50)]
        assert abs(statistics.mean(seen) - length) <= 0.06 * length + 0.5


def test_lengths_are_those_of_the_workloads() -> None:
    rng = random.Random(1)
    mixed = [mixed_length(rng) for _ in range(5000)]
    assert abs(statistics.median(mixed) - MEDIAN_TOKENS) <= 2
    assert statistics.mean(mixed) > 1.15 * MEDIAN_TOKENS
    assert {short_length(rng) for _ in range(500)} == set(range(6, 15))
