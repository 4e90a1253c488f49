"""`encode` as the client has it: what may be asked, and how answers become arrays.

Knows vectors; nothing of requests or sending.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.client.items import Givens, listed
from shoal.client.options import none_left, taken
from shoal.client.question import Asked, ItemBody
from shoal.client.result import Collector, Told
from shoal.client.turn import TurnOptions, headers_of
from shoal.errors import InvalidRequest, ProtocolError
from shoal.values import EncodeParams, VectorDType
from shoal.wire.arrays import Array, from_wire
from shoal.wire.outputs import Row, Sparse

#: No vector is wider: what is asked beyond is refused by the gateway, if any text is sent there.
MOST_DIMENSIONS = 1 << 20


class EncodeOptions(TurnOptions, total=False):
    """What may be asked of `encode` by keyword.

    Attributes:
        outputs: ``dense``, ``sparse``, ``multivector``, as the model has them; unset: its first.
            `encode` gives dense vectors alone, `encode_detailed` all.
        prompt: name of one of the model's prompts, such as ``query``.
        instruction: what the texts are read for, in your own words, of a model that takes one.
        dimensions: cut vectors to this many values and normalise them again (Matryoshka).
        dtype: element type of the vectors; ``float16`` halves what travels. ``int8``, ``uint8``
            and ``binary`` vectors are restored with `Encoded.restored`.
        normalize: unit length or not; unset: as the model's card says.
        truncate: cut items that are too long (the default); false: they are errors.
    """

    outputs: Sequence[str] | None
    prompt: str | None
    instruction: str | None
    dimensions: int | None
    dtype: VectorDType
    normalize: bool | None
    truncate: bool


class _Tensor(msgspec.Struct, frozen=True):
    dtype: str
    shape: tuple[int, ...]
    data: memoryview
    scale: float | list[float] | None = None
    zero_point: float | list[float] | None = None

    def array(self) -> NDArray[Any]:
        """[…], a view. Raises `ProtocolError`."""
        dtype = "uint8" if self.dtype == "binary" else self.dtype
        return from_wire(Array(dtype, self.shape, self.data))


class _Terms(msgspec.Struct, frozen=True):
    indices: _Tensor
    values: _Tensor


class _Item(ItemBody, frozen=True):
    dense: _Tensor | None = None
    sparse: _Terms | None = None
    multivector: _Tensor | None = None
    fde: _Tensor | None = None


class _Body(msgspec.Struct, frozen=True):
    items: list[_Item]


class Vectors(msgspec.Struct, frozen=True):
    """One item's: `outputs` by name; beside those that are quantised ``<name>.scale`` and the like."""

    outputs: dict[str, Row]


def asked(model: str, options: EncodeOptions) -> Asked[Vectors]:
    """Raises `InvalidRequest` for what cannot be asked, `TypeError` for what is no option."""
    given: dict[str, Any] = dict(options)
    headers = headers_of(given)
    params = msgspec.structs.asdict(EncodeParams(**taken(given, EncodeParams)))
    none_left(given, "encode", EncodeOptions.__annotations__)
    if options.get("outputs") is None:
        del params["outputs"]
    fields = {"params": {name: value for name, value in params.items() if value is not None}}
    return Asked("encode", model, fields, headers, _decoder.decode, _read)


_decoder = msgspec.msgpack.Decoder(_Body)


def _read(body: _Item) -> Vectors:
    outputs: dict[str, Row] = {}
    for name in ("dense", "multivector", "fde"):
        tensor: _Tensor | None = getattr(body, name)
        if tensor is not None:
            outputs |= _restorable(name, tensor)
    if body.sparse is not None:
        outputs["sparse"] = Sparse(body.sparse.indices.array(), body.sparse.values.array())
    dense = outputs.get("dense")
    if not outputs or (isinstance(dense, np.ndarray) and dense.ndim != 1):
        raise ProtocolError("an item of the answer has neither a vector nor an error")
    return Vectors(outputs)


def _restorable(name: str, tensor: _Tensor) -> dict[str, Row]:
    numbers = {"scale": tensor.scale, "zero_point": tensor.zero_point}
    beside = {
        f"{name}.{what}": np.array(number, np.float32)
        for what, number in numbers.items()
        if number is not None
    }
    return {name: tensor.array(), **beside}


class Encoded(Told, frozen=True, eq=False, kw_only=True):
    """What `encode` of n texts gave.

    Attributes:
        vectors: the dense ones, [n_ok, dim] of the dtype asked, one row for each text that has a
            vector; ``binary`` ones are uint8 [n_ok, ceil(dim / 8)]. Empty where none were asked.
        outputs: the others by name, one entry for each text that has a vector: a `Sparse`, or an
            array, [tokens, dim] or [dim]. ``<name>.scale`` and ``<name>.zero_point``, [tokens] or
            one number, stand beside those that are quantised.
        scale, zero_point: float32 [n_ok], of quantised dense vectors.
        dtype: that was asked.
    """

    vectors: NDArray[Any]
    outputs: dict[str, list[Row]]
    scale: NDArray[np.float32] | None = None
    zero_point: NDArray[np.float32] | None = None
    dtype: str = "float32"

    def restored(self) -> NDArray[np.float32]:
        """The dense vectors as float32, [n_ok, dim]: what quantised ones stand for.

        Of ``binary`` ones the signs, 1 and -1; `dim` is then a multiple of 8.
        """
        if self.dtype == "binary":
            return np.unpackbits(self.vectors, axis=1).astype(np.float32) * 2 - 1
        values = self.vectors.astype(np.float32)
        if self.zero_point is not None:
            values -= self.zero_point[:, None]
        return values if self.scale is None else values * self.scale[:, None]


class EncodeCollector(Collector[Vectors, Encoded]):
    """Copies dense vectors into one array, and keeps the others as they are."""

    def __init__(self, model: str, count: int, params: dict[str, Any]) -> None:
        super().__init__(model, count)
        self._dtype: str = params["dtype"]
        empty = "uint8" if self._dtype == "binary" else self._dtype
        width: int = params.get("dimensions", 0)
        self._empty = np.empty((0, width if 0 < width < MOST_DIMENSIONS else 0), empty)
        self._dense: NDArray[Any] | None = None
        self._others: dict[str, dict[int, Row]] = {}

    def place(self, position: int, value: Vectors) -> None:
        """Raises `ProtocolError` if dense vectors differ in form."""
        for name, row in value.outputs.items():
            if name == "dense" and isinstance(row, np.ndarray):
                self._place_dense(position, row)
            else:
                self._others.setdefault(name, {})[position] = _copied(row)

    def _place_dense(self, position: int, row: NDArray[Any]) -> None:
        if self._dense is None:
            self._dense = np.empty((len(self.have), *row.shape), row.dtype)
        vectors = self._dense
        if row.shape != vectors.shape[1:] or row.dtype != vectors.dtype:
            raise ProtocolError(
                f"vectors of one model differ: {vectors.dtype}[{vectors.shape[1]}] and "
                f"{row.dtype}[{row.shape[0]}]"
            )
        vectors[position] = row

    def result(self) -> Encoded:
        have = slice(None) if self.have.all() else self.have
        rows = {name: [rows[n] for n in sorted(rows)] for name, rows in self._others.items()}
        restores = [rows.pop(f"dense.{what}", None) for what in ("scale", "zero_point")]
        scale, zero_point = (_stacked(numbers) for numbers in restores)
        return Encoded(
            **msgspec.structs.asdict(self.told()),
            vectors=self._empty if self._dense is None else self._dense[have],
            outputs=rows,
            dtype=self._dtype,
            scale=scale,
            zero_point=zero_point,
        )


def _stacked(numbers: list[Row] | None) -> NDArray[np.float32] | None:
    return None if numbers is None else np.array(numbers, np.float32)


def _copied(row: Row) -> Row:
    if isinstance(row, Sparse):
        return Sparse(row.indices.copy(), row.values.copy())
    return row.copy()


def dense_only(options: EncodeOptions) -> EncodeOptions:
    """For one array of all answers. Raises `InvalidRequest` if other outputs are asked."""
    if tuple(options.get("outputs") or ("dense",)) != ("dense",):
        raise InvalidRequest(
            "encode gives dense vectors alone; encode_detailed gives all outputs", param="outputs"
        )
    return {**options, "outputs": ("dense",)}


def vectors_of(encoded: Encoded, given: Givens) -> NDArray[Any]:
    """[n, dim], or [dim] where the caller gave one item by itself."""
    return encoded.vectors[0] if listed(given) is not given else encoded.vectors
