"""Tiny GLiNERs in their own library: logits of spans, and the entities that it finds.

Run as a program, it records those entities for the tests that go without that library.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch

from shoal.catalog.infer import infer
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.settings import WorkerSettings
from shoal.values import ExtractParams
from shoal.wire.outputs import read_outputs
from shoal.worker.batches import packed
from shoal.worker.models import load_of, preparer_of
from shoal.worker.prepared import Prepared
from tests.e2e.direct import Direct
from tests.ecosystem import snippets
from tests.runtimes.torch import gliner as tiny

gliner = pytest.importorskip("gliner", reason=snippets.MISSING)

# It warns of tokenizers that have no token for what they do not know: ours of letters need none.
pytestmark = pytest.mark.filterwarnings("ignore:Tokenizer missing:UserWarning")


def reference(folder: Path) -> Any:
    return gliner.GLiNER.from_pretrained(str(folder), local_files_only=True)


def entities(model: Any, text: str, options: dict[str, Any]) -> list[dict[str, Any]]:
    """As the reference finds them, in our order."""
    given = options | {"flat_ner": not options.get("nested", False)}
    given.pop("nested", None)
    found = model.predict_entities(text, tiny.LABELS, **given)
    keys = ("text", "label", "score", "start", "end")
    return sorted(
        ({key: entity[key] for key in keys} for entity in found),
        key=lambda e: (e["start"], e["end"], tiny.LABELS.index(e["label"])),
    )


def recorded(folder: Path) -> dict[str, Any]:
    """Entities by family, options and text."""
    told: dict[str, Any] = {}
    for family in tiny.FAMILIES:
        tiny.save(folder / family, family)
        model = reference(folder / family)
        told[family] = {
            name: [entities(model, text, options) for text in tiny.TEXTS]
            for name, options in tiny.OPTIONS.items()
        }
    return told


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_logits_are_equal(tmp_path: Path, family: str) -> None:
    """1 - cosine and the largest difference, of all spans of all texts, which run in one batch."""
    card = tiny.save(tmp_path, family)
    model = reference(tmp_path)
    said: list[torch.Tensor] = []
    model.model.register_forward_hook(lambda _, __, output: said.append(output.logits))
    for text in tiny.TEXTS:
        model.predict_entities(text, tiny.LABELS)
    profile = card.profile("default")
    runtime = TorchRuntime()
    runtime.load(load_of(card, tmp_path, profile))
    preparer = preparer_of(card, tmp_path, profile, "tokens", WorkerSettings())
    made = preparer.prepare([*tiny.TEXTS], ExtractParams(tuple(tiny.LABELS)))
    items = [part for one in made if isinstance(one, Prepared) for part in one.sequences]
    done = runtime.run(packed(1, card.name, ["extract"], items))
    output = read_outputs(done.arrays, done.lengths, done.indices, len(items))["extract"]
    for row, logits in zip(output.rows(), said, strict=True):
        theirs = logits[0].numpy()  # [words, widths, labels]
        words, widths, labels = theirs.shape
        spans = [(s, k) for k in range(min(words, widths)) for s in range(words - k)]
        expected = np.stack([theirs[s, k] for s, k in spans])
        ours = np.asarray(row).reshape(-1, labels)
        cosine = (ours * expected).sum() / np.linalg.norm(ours) / np.linalg.norm(expected)
        assert 1 - cosine < 1e-6
        assert np.abs(ours - expected).max() < 1e-4


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("options", tiny.OPTIONS)
def test_entities_are_equal(tmp_path: Path, family: str, options: str) -> None:
    direct = Direct(tiny.save(tmp_path, family), tmp_path)
    model = reference(tmp_path)
    for text in tiny.TEXTS:
        tiny.same(
            direct.extract([text], tiny.LABELS, **tiny.OPTIONS[options]),
            [entities(model, text, tiny.OPTIONS[options])],
        )


def test_what_is_recorded_is_what_it_finds(tmp_path: Path) -> None:
    fresh, golden = recorded(tmp_path), json.loads(tiny.GOLDEN.read_text())
    assert fresh.keys() == golden.keys()
    for family, of_options in fresh.items():
        for name, found in of_options.items():
            tiny.same(found, golden[family][name])


def test_what_it_saves_is_served(tmp_path: Path) -> None:
    """`save_pretrained`, which our errors ask for, leaves a folder that has all that is needed."""
    tiny.save(tmp_path / "one", "deberta")
    reference(tmp_path / "one").save_pretrained(tmp_path / "two", safe_serialization=True)
    (tmp_path / "one" / "model.safetensors").unlink()
    card = infer(str(tmp_path / "two"))
    found = Direct(card, tmp_path / "two").extract(tiny.TEXTS, tiny.LABELS, threshold=0.1)
    tiny.same(found, json.loads(tiny.GOLDEN.read_text())["deberta"]["flat"])


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        tiny.GOLDEN.write_text(json.dumps(recorded(Path(folder))) + "\n")
    sys.exit()
