from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from shoal.catalog.card import Card, CostSeed, Memory, Profile, Source
from shoal.catalog.conversion import Convert, PackedFile
from shoal.catalog.parse import parse_card
from shoal.catalog.tasks import (
    Dense,
    EncodeTask,
    ExtractTask,
    GenerateTask,
    Multivector,
    ScoreTask,
    Sparse,
    Tasks,
)

STRUCTS: list[type[msgspec.Struct]] = [
    *(Card, Source, Tasks, EncodeTask, Dense, Sparse, Multivector, ScoreTask, ExtractTask),
    GenerateTask,
    *(Convert, PackedFile, Memory, Profile, CostSeed),
]
PAGE = (Path(__file__).parents[2] / "docs" / "catalog.md").read_text()


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda s: s.__name__)
def test_every_key_of_a_card_is_explained(struct: type[msgspec.Struct]) -> None:
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    code = " ".join(re.findall(r"`([^`]+)`", prose))
    assert [key for key in struct.__struct_fields__ if not re.search(rf"\b{key}\b", code)] == []


def test_the_example_is_a_card() -> None:
    [example] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert parse_card(example, "docs/catalog.md").name == "all-MiniLM-L6-v2"
