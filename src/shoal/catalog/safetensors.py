"""What a file says of its tensors, and how many bytes they are: its header.

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


def header(path: Path) -> dict[str, msgspec.Raw] | None:
    """What a file says of each of its tensors, and of itself as `__metadata__`; None: it is damaged."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            text = file.read(min(length, _MOST_HEADER))
        return msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (OSError, msgspec.DecodeError):
        return None


def tensor_bytes(path: Path, width: int) -> int:
    """Bytes of a file's tensors, of which floats have this width; of a damaged file, its size."""
    said = header(path)
    if said is None:
        return path.stat().st_size
    said.pop("__metadata__", None)
    try:
        tensors = [msgspec.json.decode(one, type=_Tensor) for one in said.values()]
    except msgspec.DecodeError:
        return path.stat().st_size
    total = 0
    for tensor in tensors:
        stored = tensor.data_offsets[1] - tensor.data_offsets[0]
        floats = _FLOATS.get(tensor.dtype)
        total += stored if floats is None else stored // floats * width
    return total
