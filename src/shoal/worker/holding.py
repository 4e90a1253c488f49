"""What one copy of a model will hold, read from its files before it is loaded.

Only headers are read: https://github.com/huggingface/safetensors#format. What a damaged file lacks is
the runtime's to say.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from shoal.catalog.card import Profile

#: Files that hold weights, by their ending.
WEIGHTS = {".safetensors", ".bin", ".pt", ".gguf", ".onnx", ".onnx_data"}
#: Bytes of a number, by the names of safetensors: those that a model is loaded in another width of.
_FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
_WIDTHS = {"float32": 4, "float16": 2, "bfloat16": 2}
#: No header is longer: safetensors itself reads no more.
_MOST_HEADER = 100_000_000
#: What the activations of the largest pass take where no card says. The most of all that were measured
#: (`held_mb` of the zoo) is 217 MB in float32, of Whisper tiny and SmolLM2 135M; passes on a GPU have
#: eight times the tokens, in half the bytes.
ACTIVATIONS_BYTES = 224_000_000
_GPU_TIMES = 4
#: The same of graphs: PP-OCR's largest picture, 2.1 million pixels of 256 bytes.
PICTURE_BYTES = 540_000_000


class _Tensor(msgspec.Struct):
    dtype: str
    data_offsets: tuple[int, int]


def weights_bytes(folder: Path) -> int:
    """Bytes of the files with weights."""
    return sum(path.stat().st_size for path in _weights(folder))


def tensor_bytes(folder: Path, profile: Profile, device: str) -> int:
    """Bytes of all tensors in the type that this profile loads them in on a device."""
    if profile.runtime != "torch":
        return weights_bytes(folder)
    width = _WIDTHS.get(profile.dtype) or (4 if _on_cpu(device) else 2)
    return sum(_loaded(path, width) for path in _weights(folder))


def activation_bytes(profile: Profile, device: str, *, pictures: bool) -> int:
    """What to keep for the largest pass of a model that nobody measured."""
    if profile.runtime == "onnx":
        return PICTURE_BYTES if pictures else ACTIVATIONS_BYTES
    if profile.runtime != "torch":
        return 0
    return ACTIVATIONS_BYTES * (1 if _on_cpu(device) else _GPU_TIMES)


def _on_cpu(device: str) -> bool:
    return device.partition(":")[0] == "cpu"


def _weights(folder: Path) -> list[Path]:
    """Files, and links to files: the hub's cache has links, whose files may have been cleaned away."""
    return [path for path in folder.iterdir() if path.suffix in WEIGHTS and path.is_file()]


def _loaded(path: Path, width: int) -> int:
    """Bytes of a file's tensors, of which floats have this width."""
    if path.suffix != ".safetensors":
        return path.stat().st_size
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
