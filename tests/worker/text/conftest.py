"""Tokenizers of three kinds, made here: their own words, their own special tokens around two texts."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

WORDS = ["a", "fish", "bird", "swims", "un", "##afraid", ".", "@", "resume", "berlin", "query:"]

Save = Callable[[Tokenizer], Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def folder_of(tokenizer: Tokenizer) -> Path:
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        return tmp_path

    return folder_of


def bert_like() -> Tokenizer:
    """[CLS] a [SEP] b [SEP], of two token types; lower case without accents."""
    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", *WORDS]
    tokenizer = Tokenizer(
        models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.add_special_tokens(words[:5])
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def roberta_like() -> Tokenizer:
    """<s> a </s></s> b </s>, of one token type."""
    words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *WORDS]
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    )
    tokenizer.add_special_tokens(words[:5])
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def bare() -> Tokenizer:
    """No special tokens at all."""
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="a")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer
