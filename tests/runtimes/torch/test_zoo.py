"""Converted models against what their original files say in onnxruntime.

`zoo/NAME.npz`: `tokens` of some items end to end, `types` of them (0, then 1 for a second text),
their `lengths`, and the original's `rows`. They were made by running the file that the card names
in onnxruntime 1.32 on a CPU, one item at a time, its products on the activations as they are: the
file rounds those to 8 bits first, which no conversion of weights can or should copy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoTokenizer, T5EncoderModel, T5ForConditionalGeneration

from shoal.catalog.card import Profile
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.socket import Chunk, Run
from shoal.worker.models import load_of
from tests.runtimes.torch import made
from tests.runtimes.torch.generating import texts

HERE = Path(__file__).parent / "zoo"


def original(name: str) -> dict[str, Any]:
    with np.load(HERE / f"{name}.npz") as arrays:
        return dict(arrays)


def rows(name: str, head: str) -> made.Floats:
    """What the converted model says of the same items."""
    card = Catalog.load().card(name)
    folder = fetch(card, cache_dir=None, offline=False)
    runtime = TorchRuntime()
    runtime.load(load_of(card, folder, Profile()))
    given = original(name)
    ends = np.cumsum(given["lengths"])[:-1]
    firsts = [int(n) for n in map(np.count_nonzero, np.split(given["types"] == 0, ends))]
    splits = np.where(np.array(firsts) == given["lengths"], 0, firsts).astype(np.int32)
    done = runtime.run(
        Run(
            1,
            name,
            [head],
            to_wire(given["tokens"]),
            to_wire(given["lengths"]),
            splits=to_wire(splits) if splits.any() else None,
        )
    )
    return from_wire(done.arrays[head])


def test_vectors_of_int8_weights() -> None:
    cosines = made.cosines(
        rows("bge-small-en-v1.5", "dense"), original("bge-small-en-v1.5")["rows"].astype(np.float32)
    )
    assert cosines.min() > 0.99999


def test_scores_of_int8_weights() -> None:
    ours = rows("ms-marco-MiniLM-L-12-v2", "score").ravel()
    theirs = original("ms-marco-MiniLM-L-12-v2")["rows"].ravel()
    assert theirs.max() > 5  # there are good pairs and bad ones
    assert theirs.min() < -11
    assert np.abs(ours - theirs).max() < 1e-3


def test_texts_are_those_of_transformers() -> None:
    """Three at once, each with an end of its own."""
    card = Catalog.load().card("traceforge-flan-t5-small")
    folder = fetch(card, cache_dir=None, offline=False)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    prompts = [
        tokenizer.encode(text).ids
        for text in (
            "translate English to German: The house is wonderful.",
            "translate English to German: The contract ends on Friday.",
            "summarize: edited src/login.py to fix the token refresh bug, ran pytest, 12 passed",
        )
    ]
    runtime = TorchRuntime()
    runtime.load(load_of(card, folder, Profile(sequences=3)))
    begun = [
        texts.asked(n, prompt, 30, card.name, stop=[tokenizer.token_to_id("</s>")])
        for n, prompt in enumerate(prompts)
    ]
    ours = texts.generated(runtime, *begun)
    model = T5ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    for n, prompt in enumerate(prompts):
        theirs = model.generate(torch.tensor([prompt]), max_new_tokens=30, do_sample=False)
        assert [0, *ours[n].tokens, 1] == theirs[0].tolist()
    assert tokenizer.decode(ours[0].tokens) == "Das Haus ist wunderbar."


def test_what_a_model_that_writes_reads_is_what_transformers_reads() -> None:
    """Vectors of its encoder, asked for between the passes of a text, which is what it was without them."""
    card = Catalog.load().card("traceforge-flan-t5-small")
    folder = fetch(card, cache_dir=None, offline=False)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    told = ("The house is wonderful.", "edited src/login.py, ran pytest, 12 passed", "Größe: 14 €")
    prompts = [tokenizer.encode(text).ids for text in told]
    runtime = TorchRuntime()
    runtime.load(load_of(card, folder, Profile(sequences=2)))
    text = texts.asked(1, prompts[0], 12, card.name)
    alone = texts.generated(runtime, text)[1].tokens
    runtime.begin(text)
    begun = [message for _ in range(4) for message in runtime.step()]
    items = to_wire(np.concatenate(prompts).astype(np.int32))
    lengths = to_wire(np.array([*map(len, prompts)], np.int32))
    ours = from_wire(runtime.run(Run(2, card.name, ["dense"], items, lengths)).arrays["dense"])
    rest = texts.finished(runtime, [1])[1].tokens
    assert texts.tokens_of([m for m in begun if isinstance(m, Chunk)]) + rest == alone
    model = T5EncoderModel.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        states = [model(torch.tensor([prompt])).last_hidden_state[0] for prompt in prompts]
    theirs = torch.stack([rows.mean(0) for rows in states]).numpy()
    np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.abs(theirs).max())


@pytest.mark.parametrize("name", ["multilingual-e5-small", "gector-distilbert"])
def test_other_libraries_read_the_same_tokens(name: str) -> None:
    """By their config.json alone they would take both for tokenizers of another kind."""
    folder = fetch(Catalog.load().card(name), cache_dir=None, offline=False)
    theirs = AutoTokenizer.from_pretrained(str(folder))
    ours = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ours.no_padding()
    for text in ("Hello, World!", "Größe: 14 € ", "def f(x): return x ** 2", "Привет, 世界"):
        assert theirs(text)["input_ids"] == ours.encode(text).ids
    assert theirs.model_max_length == 512
    assert theirs.pad_token_id == ours.token_to_id(theirs.pad_token)
