"""A new model of a known family is one YAML file: a CamemBERT, which no code here knows by name."""

from __future__ import annotations

from pathlib import Path

import httpx
import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import CamembertConfig, CamembertModel

from shoal.bench.serving import Serving

CARD = """
name: unplanned
source: {dir: files}
family: roberta
tasks: {encode: {dense: {dim: 48, pooling: mean}}}
max_tokens: 64
"""
WORDS = ["le", "la", "les", "un", "une", "poisson", "mer", "eau", "nage", "profonde", "dans", "et"]
TEXTS = ["le poisson nage", "la mer profonde et les poissons", "eau", "un un un " * 40]


def write_model(folder: Path) -> None:
    """A CamemBERT of random weights, as transformers saves it."""
    words = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3} | {w: i + 4 for i, w in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    torch.manual_seed(5)
    config = CamembertConfig(
        vocab_size=len(words),
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=66,
    )
    CamembertModel(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))


def expected(folder: Path) -> NDArray[np.float32]:
    """What transformers computes of the same files, mean-pooled and normalized: [n, 48]."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(64)
    model = CamembertModel.from_pretrained(folder)
    model.train(False)
    rows = []
    for text in TEXTS:
        ids = torch.tensor([tokenizer.encode(text).ids])
        with torch.no_grad():
            rows.append(model(ids).last_hidden_state[0].mean(0).numpy())
    found = np.stack(rows)
    unit: NDArray[np.float32] = found / np.linalg.norm(found, axis=1, keepdims=True)
    return unit


def test_a_new_model_of_a_known_family_is_one_yaml_file(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    write_model(tmp_path / "files")
    card = tmp_path / "unplanned.yaml"
    card.write_text(CARD)
    with Serving(["unplanned", "--catalog", str(card)]) as serving:
        answer = httpx.post(f"{serving.url}/v1/encode/unplanned", json={"items": TEXTS}, timeout=60)
    assert answer.status_code == 200, answer.text
    vectors = np.array([item["dense"] for item in answer.json()["items"]])
    cosine = (vectors * expected(tmp_path / "files")).sum(1)
    assert cosine.min() >= 0.9999, cosine
