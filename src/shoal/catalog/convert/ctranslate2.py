"""`model.bin` of CTranslate2: what kind of model it is, and its variables.

Source: `ModelSpec._serialize` in https://github.com/OpenNMT/CTranslate2, `specs/model_spec.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from shoal.catalog.convert.binary import Cursor
from shoal.catalog.convert.tensors import Array, array_of, mapped, read_as

_VERSION = 6
#: Its number of a type -> numpy. Quantized variables, whose scales lie apart, are not known here.
_DTYPES = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2"}


class Model(msgspec.Struct, frozen=True):
    """`spec`: the kind of model, such as ``WhisperSpec``; `variables`: numbers and weights."""

    spec: str
    variables: Mapping[str, Array]


def read_model(file: Path) -> Model:
    """Read a file. Raises `SourceError` saying what is wrong with it."""
    with read_as(f"{file.name}: not a readable CTranslate2 model"):
        cursor = Cursor(mapped(file))
        if (version := cursor.integer("I")) != _VERSION:
            raise ValueError(f"version {version}; known is {_VERSION}")
        spec = _text(cursor)
        cursor.integer("I")  # revision of the specification
        variables = dict(_variable(cursor) for _ in range(cursor.integer("I")))
        return Model(spec, variables)


def _variable(cursor: Cursor) -> tuple[str, Array]:
    name = _text(cursor)
    shape = tuple(cursor.integer("I") for _ in range(cursor.integer("B")))
    kind, size = cursor.integer("B"), cursor.integer("I")
    if kind not in _DTYPES:
        raise ValueError(f"'{name}' is of unknown type {kind}")
    return name, array_of(cursor.bytes(size), _DTYPES[kind], shape, f"'{name}'")


def _text(cursor: Cursor) -> str:
    return cursor.text(cursor.integer("H")).removesuffix("\0")
