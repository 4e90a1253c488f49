"""Tiny graphs that do on coloured bars what PP-OCR's do on text, written byte by byte.

Any dark or coloured pixel is text. A recogniser's code is the channel that is brightest over 8 columns:
0, no character, for blue; 1 for green; 2 for red. A strip stands on its head if its right half is green.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shoal.catalog.families import FAMILIES
from shoal.runtimes.check.sample import Sample
from shoal.wire.arrays import to_wire
from shoal.wire.socket import Load, Run
from tests.catalog.convert.onnx_files import field, node, tensor

RED, GREEN, BLACK = (255, 0, 0), (0, 255, 0), (0, 0, 0)
#: By code.
CHARACTERS = ["", "g", "r"]

_FLOAT = 1


def _value(name: str, shape: Sequence[int | str]) -> bytes:
    sizes = b"".join(field(1, field(1 if isinstance(n, int) else 2, n)) for n in shape)
    kind = field(1, field(1, _FLOAT) + field(2, sizes))
    return field(1, name) + field(2, kind)


def graph(
    nodes: list[bytes],
    shapes: tuple[Sequence[int | str], Sequence[int | str]],
    tensors: Sequence[bytes] = (),
    notes: dict[str, str] | None = None,
) -> bytes:
    """Of input ``x`` and output ``y``. `notes`: metadata."""
    parts = [field(1, each) for each in nodes] + [field(2, "g")]
    parts += [field(5, each) for each in tensors]
    parts += [field(11, _value("x", shapes[0])), field(12, _value("y", shapes[1]))]
    said = [field(14, field(1, key) + field(2, value)) for key, value in (notes or {}).items()]
    return field(1, 8) + field(7, b"".join(parts)) + field(8, field(2, 13)) + b"".join(said)


def detector() -> bytes:
    nodes = [
        node("ReduceMin", "", ["x"], "low", axes=[1], keepdims=1),
        node("Neg", "", ["low"], "dark"),
        node("Relu", "", ["dark"], "y"),
    ]
    return graph(nodes, (["n", 3, "h", "w"], ["n", 1, "h", "w"]))


def recogniser(notes: dict[str, str] | None = None) -> bytes:
    nodes = [
        node("AveragePool", "", ["x"], "means", kernel_shape=[48, 8], strides=[48, 8]),
        node("Squeeze", "", ["means", "two"], "flat"),
        node("Transpose", "", ["flat"], "y", perm=[0, 2, 1]),
    ]
    two = tensor("two", np.array([2], np.int64))
    return graph(nodes, (["n", 3, 48, "w"], ["n", "t", 3]), [two], notes)


def angle() -> bytes:
    nodes = [
        node("Gather", "", ["x", "one"], "green", axis=1),
        node("AveragePool", "", ["green"], "halves", kernel_shape=[48, 96], strides=[48, 96]),
        node("Flatten", "", ["halves"], "y", axis=1),
    ]
    one = tensor("one", np.array([1], np.int64))
    return graph(nodes, (["n", 3, 48, "w"], ["n", 2]), [one])


def folder(path: Path) -> Path:
    """A model's folder."""
    path.mkdir(exist_ok=True)
    made = (detector(), recogniser(), angle())
    for name, content in zip(FAMILIES["ppocr"].graphs, made, strict=True):
        (path / name).write_bytes(content)
    (path / "config.json").write_text('{"model_type": "ppocr"}')
    (path / "characters.json").write_text('["", "g", "r"]')
    return path


def load(path: Path, model: str = "m", max_tokens: int = 2048) -> Load:
    heads = {"extract": {"head": "ocr", "labels": []}}
    return Load(model, str(folder(path)), "ppocr", heads, max_tokens=max_tokens)


def sample(path: Path) -> Sample:
    """Pictures of two lines, of one, and of none."""
    bars = [((100, 100, 400, 130), RED), ((100, 300, 500, 330), GREEN)]
    pictures = [picture(700, 500, *bars[:count]) for count in (2, 1, 0)]
    none, empty = to_wire(np.zeros(0, np.int32)), to_wire(np.zeros(1, np.int32))
    items = [Run(0, "", ["extract"], none, empty, inputs=[to_wire(one)]) for one in pictures]
    return Sample(load(path / "reader", ""), items)


def picture(
    width: int, height: int, *bars: tuple[tuple[int, int, int, int], tuple[int, int, int]]
) -> NDArray[np.uint8]:
    """White, with bars at (left, top, right, bottom)."""
    made = np.full((height, width, 3), 255, np.uint8)
    for (left, top, right, bottom), colour in bars:
        made[top:bottom, left:right] = colour
    return made
