"""What a card says of each family's models, from the config.json that the reference library saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import (
    AlbertConfig,
    AutoConfig,
    CamembertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    MPNetConfig,
    PretrainedConfig,
    RobertaConfig,
    T5Config,
    XLMRobertaConfig,
)

from shoal.catalog.families import FAMILIES
from shoal.catalog.infer import infer

from .made import plain_files, sentence_files, write

#: What publishers' own code calls what the reference library has under another name: GTE.
PUBLISHED = {"new"}


@pytest.mark.parametrize(
    ("config", "family", "max_tokens"),
    [
        (DistilBertConfig(dim=32, n_heads=2, max_position_embeddings=70), "distilbert", 70),
        (RobertaConfig(hidden_size=32, max_position_embeddings=70), "roberta", 68),
        (RobertaConfig(hidden_size=32, max_position_embeddings=70, pad_token_id=0), "roberta", 69),
        (XLMRobertaConfig(hidden_size=32, max_position_embeddings=70), "roberta", 68),
        (DebertaV2Config(hidden_size=32, max_position_embeddings=70), "deberta", 70),
        (AlbertConfig(hidden_size=32, max_position_embeddings=70), "albert", 70),
        (ElectraConfig(hidden_size=32, max_position_embeddings=70), "electra", 70),
        (MPNetConfig(hidden_size=32, max_position_embeddings=70), "mpnet", 68),
        (T5Config(d_model=32), "t5", 512),
        (AutoConfig.for_model("t5", d_model=32, n_positions=70), "t5", 70),
        (CamembertConfig(hidden_size=32, max_position_embeddings=70), "roberta", 68),
    ],
    ids=lambda value: value.model_type if isinstance(value, PretrainedConfig) else str(value),
)
def test_what_a_card_says(
    tmp_path: Path, config: PretrainedConfig, family: str, max_tokens: int
) -> None:
    folder = write(tmp_path / "m", plain_files())
    config.to_json_file(folder / "config.json")
    card = infer(str(folder))
    assert card.tasks.encode is not None
    assert card.tasks.encode.dense is not None
    assert (card.family, card.tasks.encode.dense.dim) == (family, 32)
    assert card.max_tokens == max_tokens


def test_the_files_say_less_than_the_positions_allow(tmp_path: Path) -> None:
    config = {"model_type": "roberta", "max_position_embeddings": 514}
    files: dict[str, Any] = {**sentence_files(), "config.json": {"hidden_size": 32, **config}}
    assert infer(str(write(tmp_path / "m", files))).max_tokens == 64
    # Many say 514, which is two more than there are positions.
    files["sentence_bert_config.json"] = {"max_seq_length": 514}
    assert infer(str(write(tmp_path / "n", files))).max_tokens == 512


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_every_model_type_is_one_of_the_reference_library(family: Any) -> None:
    for kind in set(family.model_types) - PUBLISHED:
        assert AutoConfig.for_model(kind).model_type == kind
