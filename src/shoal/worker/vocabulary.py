"""A model's tokenizer: its tokenizer.json, or one made from the vocabulary that it has instead.

Models of the years before tokenizer.json come with the word pieces of BERT (`vocab.txt`) or the
byte pairs of RoBERTa (`vocab.json` and `merges.txt`). What makes tokens of them is fixed but for
what `tokenizer_config.json` says; a test holds both against transformers.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from shoal.catalog.document import read_json
from shoal.errors import ModelLoadFailed


class _Config(msgspec.Struct):
    """The keys of `tokenizer_config.json` that count. `do_lower_case` has no safe default: the
    same library took cased models for uncased ones unless this file said otherwise."""

    tokenizer_class: str | None = None
    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    add_prefix_space: bool = False


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer at `path`; if there is none, one from the vocabulary files beside it.

    Raises:
        ModelLoadFailed: no vocabulary either, or one whose kind is not known.
        Exception: a file that cannot be read, as the libraries tell it.
    """
    if path.is_file():
        return Tokenizer.from_file(str(path))
    if (path.parent / "vocab.txt").is_file():
        return _word_pieces(path.parent)
    if (path.parent / "merges.txt").is_file():
        return _byte_pairs(path.parent)
    raise ModelLoadFailed(f"there is neither {path.name} nor a vocabulary beside it")


def _word_pieces(folder: Path) -> Tokenizer:
    """As BERT takes text apart (Devlin et al. 2018, arXiv:1810.04805)."""
    config = _config(folder, ("Bert", "DistilBert", "Electra"))
    if config.do_lower_case is None:
        raise ModelLoadFailed("tokenizer_config.json does not say do_lower_case")
    tokenizer = Tokenizer(models.WordPiece.from_file(str(folder / "vocab.txt")))
    cls, sep = _special(tokenizer, "[CLS]"), _special(tokenizer, "[SEP]")
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=config.tokenize_chinese_chars,
        strip_accents=config.strip_accents,
        lowercase=config.do_lower_case,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(sep, cls)
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(["[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"])
    return tokenizer


def _byte_pairs(folder: Path) -> Tokenizer:
    """As RoBERTa takes text apart (Liu et al. 2019, arXiv:1907.11692)."""
    config = _config(folder, ("Roberta",))
    vocabulary, merges = str(folder / "vocab.json"), str(folder / "merges.txt")
    tokenizer = Tokenizer(models.BPE.from_file(vocabulary, merges))
    cls, sep = _special(tokenizer, "<s>"), _special(tokenizer, "</s>")
    space = config.add_prefix_space
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    tokenizer.post_processor = processors.RobertaProcessing(sep, cls, add_prefix_space=space)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    return tokenizer


def _config(folder: Path, classes: tuple[str, ...]) -> _Config:
    """Raises `ModelLoadFailed` if the model says that its vocabulary is of another kind."""
    config = read_json(folder / "tokenizer_config.json", _Config, _Config())
    name = (config.tokenizer_class or classes[0]).removesuffix("Fast").removesuffix("Tokenizer")
    if name not in classes:
        raise ModelLoadFailed(f"its vocabulary is of the kind {config.tokenizer_class}")
    return config


def _special(tokenizer: Tokenizer, token: str) -> tuple[str, int]:
    found = tokenizer.token_to_id(token)
    if found is None:
        raise ModelLoadFailed(f"its vocabulary has no {token}")
    return token, found
