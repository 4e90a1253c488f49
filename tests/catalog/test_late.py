"""What is inferred for models of late interaction, as PyLate and ColBERT's own library save them."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest

from shoal.catalog.infer import infer
from shoal.catalog.parse import parse_card, to_yaml
from shoal.catalog.tasks import EncodeTask, Multivector, ScoreTask, Tasks
from shoal.errors import CardError

from .made import TRANSFORMER, plain_files, write

DENSE = {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"}
PUNCTUATION = list(string.punctuation)


def pylate(**said: Any) -> dict[str, Any]:
    return plain_files(architectures=["BertModel"]) | {
        "modules.json": [TRANSFORMER, DENSE],
        "config_sentence_transformers.json": said,
        "1_Dense/config.json": {"in_features": 32, "out_features": 8, "bias": False},
        "1_Dense/model.safetensors": b"x",
    }


def stanford(**said: Any) -> dict[str, Any]:
    return plain_files(architectures=["HF_ColBERT"]) | {
        "artifact.metadata": {"dim": 16, "query_maxlen": 24, "doc_maxlen": 60, "nbits": 2} | said
    }


def tasks(vectors: Multivector, query: str, document: str) -> Tasks:
    prompts = {"query": query, "document": document}
    return Tasks(EncodeTask(multivector=vectors, prompts=prompts), ScoreTask("maxsim"))


@pytest.mark.parametrize(
    ("files", "expected", "most"),
    [
        (
            pylate(),
            tasks(
                Multivector(8, projections=["1_Dense"], query_tokens=32, skip=PUNCTUATION),
                "[Q] ",
                "[D] ",
            ),
            128,  # 180, but it has no more positions
        ),
        (
            pylate(
                query_prefix="[unused0]",
                document_prefix="[unused1]",
                query_length=16,
                document_length=100,
                skiplist_words=["."],
            ),
            tasks(
                Multivector(8, projections=["1_Dense"], query_tokens=16, skip=["."]),
                "[unused0]",
                "[unused1]",
            ),
            100,
        ),
        (
            pylate(do_query_expansion=False, document_length=64, skiplist_words=[]),
            tasks(
                Multivector(8, projections=["1_Dense"], query_tokens=32, fill=False),
                "[Q] ",
                "[D] ",
            ),
            64,
        ),
        (
            pylate(
                prompts={"query": "search_query: ", "document": "", "passage": ""},
                skiplist_words=[],
            ),
            tasks(
                Multivector(8, projections=["1_Dense"], query_tokens=32),
                "[Q] search_query: ",
                "[D] ",
            ),
            128,
        ),
        (
            stanford(),
            tasks(Multivector(16, query_tokens=24, skip=PUNCTUATION), "[unused0]", "[unused1]"),
            60,
        ),
        (
            stanford(mask_punctuation=False, query_token_id="[Q]", doc_token_id="[D]"),
            tasks(Multivector(16, query_tokens=24), "[Q]", "[D]"),
            60,
        ),
    ],
)
def test_what_the_files_say(
    tmp_path: Path, files: dict[str, Any], expected: Tasks, most: int
) -> None:
    card = infer(str(write(tmp_path / "m", files)))
    assert card.tasks == expected
    assert card.max_tokens == most
    assert parse_card(to_yaml(card), "m.yaml") == card


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (pylate(attend_to_expansion_tokens=True), "attend_to_expansion_tokens is set"),
        (pylate(prompts={"title": "title: "}), "has a prompt 'title', and its markers are of"),
        (pylate() | {"modules.json": [DENSE, TRANSFORMER]}, "Dense \\+ Transformer; supported of"),
        (pylate() | {"1_Dense/config.json": None}, "1_Dense/config.json is missing"),
        (stanford(attend_to_mask_tokens=True), "attend_to_mask_tokens of artifact.metadata is set"),
        (stanford(similarity="l2"), "compares by l2"),
        (stanford() | {"artifact.metadata": None}, "artifact.metadata is missing"),
    ],
)
def test_what_is_not_computed_is_refused(tmp_path: Path, files: dict[str, Any], why: str) -> None:
    with pytest.raises(CardError, match=why):
        infer(str(write(tmp_path / "m", files)))
