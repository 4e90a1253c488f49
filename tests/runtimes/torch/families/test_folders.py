"""A folder as sentence-transformers saves it: card, tokens and vectors without a word about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from shoal.catalog.card import Profile
from shoal.catalog.infer import infer
from shoal.runtimes.batch import Batch
from shoal.runtimes.torch.model import Model
from shoal.values import EncodeParams
from shoal.worker.models import load_of
from shoal.worker.prepared import Prepared
from shoal.worker.text import TextPreparer
from tests.runtimes.torch.families.rows import ROWS
from tests.runtimes.torch.made import Floats

#: One longer than the model takes, one of no characters, one of several bytes a character.
TEXTS = ["a fish", "", "many fish swim in the sea, " * 2, "Stra\u00dfe \u0639\u0631", "x" * 300]
SPECIALS = ["[PAD]", "[CLS]", "<|endoftext|>"]


@pytest.mark.parametrize(
    ("family", "pooling", "template"),
    [
        ("modernbert", "cls", "[CLS] $A <|endoftext|>"),
        ("nomic", "mean", "[CLS] $A <|endoftext|>"),
        ("gte", "cls", "[CLS] $A <|endoftext|>"),
        ("qwen3", "lasttoken", "$A <|endoftext|>"),
        ("qwen2", "lasttoken", "$A <|endoftext|>"),
        ("llama", "lasttoken", "[CLS] $A <|endoftext|>"),
        ("mistral", "mean", "[CLS] $A"),
        ("smollm3", "lasttoken", "[CLS] $A"),
        ("gemma3", "mean", "[CLS] $A <|endoftext|>"),
    ],
)
def test_vectors_equal_sentence_transformers(
    tmp_path: Path, family: str, pooling: str, template: str
) -> None:
    plain, folder = tmp_path / "plain", tmp_path / "model"
    tokenizer = _tokenizer(template)
    ROWS[family].make("encoder", plain, vocab_size=tokenizer.get_vocab_size())
    fast: Any = PreTrainedTokenizerFast
    fast(tokenizer_object=tokenizer, pad_token="[PAD]").save_pretrained(plain)
    modules = [Transformer(str(plain), max_seq_length=48), Pooling(32, pooling), Normalize()]
    reference = SentenceTransformer(modules=modules, device="cpu")
    reference.save(str(folder))
    expected = reference.encode(TEXTS)
    ours = _vectors(folder, family)
    assert (ours * expected).sum(1).min() >= 0.9999


def _tokenizer(template: str) -> Tokenizer:
    """Bytes, and the special tokens of the template around them."""
    symbols = [*SPECIALS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    vocabulary = {symbol: number for number, symbol in enumerate(symbols)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(SPECIALS)
    used = [(token, vocabulary[token]) for token in SPECIALS if token in template]
    tokenizer.post_processor = processors.TemplateProcessing(template, special_tokens=used)
    return tokenizer


def _vectors(folder: Path, family: str) -> Floats:
    """Through what `shoal serve ./folder` makes of it, normalised as the card says."""
    card = infer(str(folder))
    assert (card.family, card.max_tokens) == (family, 48)
    assert card.tasks.encode is not None
    assert card.tasks.encode.dense is not None
    assert card.tasks.encode.dense.normalize
    prepared = TextPreparer(card, folder).prepare(list(TEXTS), EncodeParams())
    ids = [one.ids for one in prepared if isinstance(one, Prepared) and one.ids is not None]
    assert len(ids) == len(TEXTS)
    batch = Batch(
        np.concatenate(ids),
        np.array([len(one) for one in ids], np.int64),
        np.zeros(len(ids), np.int32),
    )
    model = Model(load_of(card, folder, Profile(runtime="torch")), torch.device("cpu"))
    rows = model.run(batch, ["dense"]).outputs["dense"].values
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)
