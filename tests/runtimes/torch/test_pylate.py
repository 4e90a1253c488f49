"""Folders as PyLate saves them, against sentence-transformers, which reads them as PyLate does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sentence_transformers import MultiVectorEncoder
from transformers import ModernBertConfig, ModernBertModel

from shoal.catalog.card import Card, Profile
from shoal.catalog.infer import infer
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.values import EncodeParams
from shoal.wire.outputs import read_outputs
from shoal.worker.batches import packed
from shoal.worker.models import load_of
from shoal.worker.prepared import Prepared
from shoal.worker.text import TextPreparer
from tests.catalog.made import TRANSFORMER, write
from tests.runtimes.torch.made import Floats
from tests.worker.text.conftest import bert_like

QUERIES = ["a fish", "berlin swims. a bird", "a fish swims @ berlin. " * 4]
DOCUMENTS = ["unafraid.", "a bird swims. a fish", "berlin @ berlin. " * 9]
SPECIAL = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "cls", "sep", "unk", "mask")}


def save(folder: Path, **said: Any) -> Path:
    """A ModernBERT of random weights with a projection to 8 columns; `said` of PyLate's keys."""
    tokenizer = bert_like()
    tokenizer.add_tokens(["[Q] ", "[D] "])
    size = tokenizer.get_vocab_size()
    torch.manual_seed(5)
    shape: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape |= {"intermediate_size": 64, "max_position_embeddings": 64, "vocab_size": size}
    shape |= {"initializer_range": 0.4, "local_attention": 8, "pad_token_id": 0}
    model: Any = ModernBertModel(ModernBertConfig(**shape))
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    dense: dict[str, Any] = {"in_features": 32, "out_features": 8, "bias": False}
    dense |= {"activation_function": "torch.nn.modules.linear.Identity"}
    kind = "pylate.models.Dense.Dense"
    write(
        folder,
        {
            "modules.json": [TRANSFORMER, {"idx": 1, "name": "1", "path": "1_Dense", "type": kind}],
            "config_sentence_transformers.json": {"model_type": "ColBERT", **said},
            "sentence_bert_config.json": {"max_seq_length": 31, "do_lower_case": False},
            "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", **SPECIAL},
            "1_Dense/config.json": dense,
        },
    )
    weight = torch.randn(8, 32) / 6
    save_file({"linear.weight": weight}, folder / "1_Dense" / "model.safetensors")
    return folder


def ours(card: Card, folder: Path, texts: list[str], prompt: str) -> list[Floats]:
    """As the worker asks and answers."""
    runtime = TorchRuntime()
    runtime.load(load_of(card, folder, Profile()))
    params = EncodeParams(("multivector",), prompt=prompt)
    made = TextPreparer(card, folder).prepare([*texts], params)
    items = [item for item in made if isinstance(item, Prepared)]
    done = runtime.run(packed(1, card.name, ["multivector"], items))
    rows = read_outputs(done.arrays, done.lengths, done.indices, len(items))["multivector"].rows()
    answers = []
    for item, row in zip(items, rows, strict=True):
        assert item.finish is not None
        answer = item.finish([{"multivector": row}], [])
        assert isinstance(answer, dict)
        answers.append(np.asarray(answer["multivector"]))
    return answers


@pytest.mark.parametrize(
    ("said", "tokens"),
    [
        ({"query_length": 12, "document_length": 20}, [12, 12, 12]),
        (
            {
                "query_length": 12,
                "document_length": 20,
                "do_query_expansion": False,
                "skiplist_words": [],
            },
            [5, 8, 12],
        ),
        (
            {
                "query_length": 16,
                "document_length": 24,
                "skiplist_words": ["."],
                "prompts": {"query": "query: ", "document": "a bird: "},
            },
            [16, 16, 16],
        ),
    ],
    ids=["filled", "cut alone", "a marker and a prompt"],
)
def test_vectors_are_those_of_the_library(
    tmp_path: Path, said: dict[str, Any], tokens: list[int]
) -> None:
    markers = {"query_prefix": "[Q] ", "document_prefix": "[D] "}
    folder = save(tmp_path / "m", **markers, **said)
    card = infer(str(folder))
    model = MultiVectorEncoder(str(folder), device="cpu")
    queries = ours(card, folder, QUERIES, "query")
    documents = ours(card, folder, DOCUMENTS, "document")
    assert [len(one) for one in queries] == tokens
    for found, expected in (
        (queries, model.encode_query(QUERIES)),
        (documents, model.encode_document(DOCUMENTS)),
    ):
        assert [one.shape for one in found] == [one.shape for one in expected]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=2e-5)
