"""How many bytes of tensors a file has, read from its header.

https://github.com/huggingface/safetensors#format. What a damaged file lacks is the runtime's to say.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

#: Bytes of a number, by the format's names: those that a model is loaded in another width of.
_FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
#: No header is longer: the format's own library reads no more.
_MOST_HEADER = 100_000_000


class _Tensor(msgspec.Struct):
    dtype: str
    data_offsets: tuple[int, int]


def tensor_bytes(path: Path, width: int) -> int:
    """Bytes of a file's tensors, of which floats have this width; of a damaged file, its size."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = msgspec.json.decode(file.read(min(length, _MOST_HEADER)))
        header.pop("__metadata__", None)
        tensors = msgspec.convert(header, dict[str, _Tensor]).values()
    except (OSError, msgspec.MsgspecError, AttributeError):
        return path.stat().st_size
    total = 0
    for tensor in tensors:
        stored = tensor.data_offsets[1] - tensor.data_offsets[0]
        floats = _FLOATS.get(tensor.dtype)
        total += stored if floats is None else stored // floats * width
    return total
