"""PP-OCR: a picture in, its characters out, each with the box of its line.

Detector, classifier of angles and recogniser run in turn, so that a worker sees one model. Everything
between them is arithmetic on pixels; what the characters say and in which order lines are read is the
worker's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shoal.catalog.families import FAMILIES
from shoal.errors import ErrorInfo, InvalidItem, InvalidRequest, ModelLoadFailed, ShoalError
from shoal.runtimes.batch import Batch, Outputs
from shoal.runtimes.onnx.graph import Graph
from shoal.runtimes.onnx.ocr import lines
from shoal.runtimes.onnx.ocr.pixels import Pixels, cut_out, planes, resized
from shoal.runtimes.onnx.ocr.regions import boxes
from shoal.tasks.ocr import ROW, TILE, black_rows, detected_size
from shoal.wire.outputs import Output
from shoal.wire.socket import Load

#: Peak of a pass of the detector, measured at 0.1 to 2.6 million pixels: 174 to 249 bytes each.
_PIXEL_BYTES = 256

Rows = NDArray[np.float32]


class Reader:
    """One resident model.

    Attributes:
        bytes: weights, and the activations of the largest picture that a worker sends.
        threads: that its graphs use.
    """

    def __init__(self, load: Load, threads: int) -> None:
        """Raises `ModelLoadFailed` naming the file or the head that is wrong."""
        for name, options in load.heads.items():
            if options.get("head", name) != "ocr":
                raise ModelLoadFailed(f"head '{name}' is not one of a reader's; it has 'ocr'")
        if load.options:
            raise ModelLoadFailed(f"a reader has no options, and got {', '.join(load.options)}")
        folder = Path(load.path)
        graphs = [Graph(folder / name, threads) for name in FAMILIES[load.family].graphs]
        self._detector, self._recogniser, self._angles = graphs
        self._max_tokens = load.max_tokens
        self.bytes = sum(graph.bytes for graph in graphs) + load.max_tokens * TILE**2 * _PIXEL_BYTES

    def warm_up(self) -> None:
        """Run each graph once: what is laid out at first use is laid out."""
        self.read(np.zeros((TILE, TILE, 3), np.uint8))
        blank = [np.zeros((lines.HEIGHT, lines.HEIGHT, 3), np.uint8)]
        lines.turned(blank, self._angles)
        lines.read(blank, self._recogniser)

    def run(self, batch: Batch, heads: list[str]) -> Outputs:
        """Item by item: no two pictures have one size. Raises `InvalidRequest` if none came."""
        if batch.inputs is None:
            raise InvalidRequest("the model takes decoded media, and none came")
        rows: list[Rows] = []
        computed, failed = 0, dict[int, ErrorInfo]()
        for position, picture in enumerate(batch.inputs):
            try:
                own, tiles = self.read(self.check(picture))
            except ShoalError as error:
                failed[position] = error.info
                own, tiles = np.zeros((0, ROW), np.float32), 0
            rows.append(own)
            computed += tiles
        lengths = np.array([len(own) for own in rows], np.int32)
        output = Output(np.concatenate(rows), lengths)
        return Outputs(dict.fromkeys(heads, output), computed, failed)

    def check(self, picture: NDArray[np.generic]) -> Pixels:
        """Raises `InvalidItem` for what is no picture that a worker would send."""
        shape = picture.shape
        if picture.dtype != np.uint8 or len(shape) != 3 or shape[2] != 3 or 0 in shape:
            raise InvalidItem(
                f"this item came as {picture.dtype} of shape {list(shape)}, and the model takes "
                "pictures as uint8 of [height, width, 3]"
            )
        if shape[0] * shape[1] > self._max_tokens * TILE**2:
            raise InvalidItem(
                f"this item has {shape[0] * shape[1]} pixels, and at most "
                f"{self._max_tokens * TILE**2} are read"
            )
        return picture  # type: ignore[return-value]  # the dtype was looked at

    def read(self, picture: Pixels) -> tuple[Rows, int]:
        """Rows of `ROW` numbers, as `tasks.ocr` has them; and how many tiles were computed."""
        black = black_rows(picture.shape[1], picture.shape[0])
        shown = np.pad(picture, ((black, black), (0, 0), (0, 0))) if black else picture
        height, width = shown.shape[:2]
        wide, high = detected_size(width, height, self._max_tokens)
        chances = self._detector.run(planes(resized(shown, wide, high))[None])
        cut = [cut_out(shown, box) for box in boxes(chances[0, 0], width, height)]
        turned, angle_columns = lines.turned([crop for crop, _ in cut], self._angles)
        crops = [c[::-1, ::-1] if turn else c for (c, _), turn in zip(cut, turned, strict=True)]
        said, read_columns = lines.read(crops, self._recogniser)
        # What was seen in the black belongs to the edge of the picture.
        rows = [np.zeros((0, ROW))]
        for n, ((_, box), turn, own) in enumerate(zip(cut, turned, said, strict=True)):
            corners = np.roll(box, 2, 0) if turn else box
            corners = np.clip(corners - [0, black], 0, [picture.shape[1], picture.shape[0]])
            rows.append(
                np.column_stack(
                    [np.full(len(own), n), own, np.tile(corners.ravel(), (len(own), 1))]
                )
            )
        columns = (angle_columns + read_columns) * lines.HEIGHT
        computed = (wide * high + columns) // TILE**2
        return np.concatenate(rows).astype(np.float32), computed
