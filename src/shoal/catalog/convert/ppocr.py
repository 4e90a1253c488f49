"""PP-OCR as packages ship it: three ONNX graphs, and the characters in the recogniser's notes.

The graphs stay as they are: ONNX Runtime computes them.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from shoal.catalog.convert.onnx import read_notes
from shoal.catalog.convert.tensors import Found
from shoal.catalog.families import CHARACTERS, FAMILIES
from shoal.errors import SourceError

#: The note that lists the characters, one a line, from code 1 on.
_NOTE = "character"


def read(files: list[Path], folder: Path) -> Found:
    """Of detector, recogniser and classifier of angles, in this order. Raises `SourceError`."""
    graphs = FAMILIES["ppocr"].graphs
    if len(files) != len(graphs):
        raise SourceError(
            f"{len(files)} files are given where {', '.join(graphs)} are made of them"
        )
    kept = {name: file.read_bytes() for name, file in zip(graphs, files, strict=True)}
    recogniser = files[1]
    said = read_notes(recogniser).get(_NOTE)
    if said is None:
        raise SourceError(f"{recogniser.name}: has no note '{_NOTE}' that lists its characters")
    # Code 0 is no character, and the last one the space.
    characters = ["", *said.splitlines(), " "]
    return Found({}, {"model_type": "ppocr"}, {**kept, CHARACTERS: msgspec.json.encode(characters)})
