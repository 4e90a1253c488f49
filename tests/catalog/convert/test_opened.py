"""Converted folders as transformers opens them: with its tokenizer, its model, and nothing left over."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoTokenizer

from shoal.catalog.card import Card
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog

#: Architectures that transformers has not, or not quite: its EfficientNet has gates in every block.
OTHERS = ("efficientnet-lite0", "pp-ocrv6-small")
TEXT = "Hello, world! It cost 12345 at the café\n  down the road."
#: What BertModel adds to an encoder, and such checkpoints have none of.
POOLER = {"pooler.dense.weight", "pooler.dense.bias"}


def converted() -> list[Card]:
    return [
        card for card in Catalog.load().zoo() if card.source.convert and card.name not in OTHERS
    ]


@pytest.fixture(params=converted(), ids=lambda card: card.name)
def folder(request: pytest.FixtureRequest) -> Path:
    return fetch(request.param, cache_dir=None, offline=False)


def test_the_tokenizer(folder: Path) -> None:
    assert (folder / "tokenizer_config.json").is_file()
    own = Tokenizer.from_file(str(folder / "tokenizer.json"))
    own.no_padding()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer(TEXT)["input_ids"] == own.encode(TEXT).ids
    assert tokenizer.pad_token is not None
    assert len(tokenizer) <= AutoConfig.from_pretrained(folder).vocab_size


def test_the_model(folder: Path) -> None:
    """The class that its configuration names, with all of the weights and no others."""
    [architecture] = AutoConfig.from_pretrained(folder).architectures
    model, found = getattr(transformers, architecture).from_pretrained(
        folder, output_loading_info=True
    )
    assert set(found["missing_keys"]) <= POOLER
    assert not found["unexpected_keys"]
    assert not found["mismatched_keys"]
    assert model.config.model_type == AutoConfig.from_pretrained(folder).model_type


def test_one_that_chats_knows_what_ends_a_text() -> None:
    card = Catalog.load().card("smollm2-135m-instruct")
    folder = fetch(card, cache_dir=None, offline=False)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.eos_token_id == AutoConfig.from_pretrained(folder).eos_token_id
    told = [{"role": "user", "content": "Hello"}]
    text = str(tokenizer.apply_chat_template(told, tokenize=False, add_generation_prompt=True))
    assert text.endswith(f"Hello{tokenizer.eos_token}\n<|im_start|>assistant\n")
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == (
        "system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face\n"
        "user\nHello\nassistant\n"
    )
