"""A tokenizer of single bytes, a few longer pieces of JSON, and an end."""

from __future__ import annotations

from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

END = 0
#: Ids from 1 on.
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
_LONGER = [("{", '"'), ('"', ":"), (":", "Ġ"), (",", "Ġ"), ("t", "r"), ("u", "e"), ("tr", "ue")]


def save(folder: Path) -> Tokenizer:
    """As ``tokenizer.json`` in a folder."""
    words = ["<end>", *ALPHABET, *("".join(pair) for pair in _LONGER)]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocabulary, _LONGER))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<end>", special=True)])
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer
