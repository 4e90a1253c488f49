"""What one copy of a model will hold, read from its files before it is loaded.

Only headers are read; what a damaged file lacks is the runtime's to say.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from shoal.catalog import safetensors
from shoal.catalog.card import Card, Profile
from shoal.catalog.families import FAMILIES
from shoal.runtimes.room import places

#: Files that hold weights, by their ending.
WEIGHTS = {".safetensors", ".bin", ".pt", ".gguf", ".onnx", ".onnx_data"}
#: Kinds of runtime that hold the tensors of safetensors, in the type that a profile says.
_OF_TENSORS = ("torch", "candle")
_WIDTHS = {"float32": 4, "float16": 2, "bfloat16": 2}
#: What the activations of the largest pass take where no card says. The most of all that were measured
#: (`held_mb` of the zoo) is 217 MB in float32, of Whisper tiny and SmolLM2 135M; passes on a GPU have
#: eight times the tokens, in half the bytes.
ACTIVATIONS_BYTES = 224_000_000
_GPU_TIMES = 4
#: The same of graphs: PP-OCR's largest picture, 2.1 million pixels of 256 bytes.
PICTURE_BYTES = 540_000_000


def weights_bytes(folder: Path) -> int:
    """Bytes of the files with weights."""
    return sum(path.stat().st_size for path in _weights(folder))


def tensor_bytes(folder: Path, profile: Profile, device: str) -> int:
    """Bytes of all tensors in the type that this profile loads them in on a device."""
    if profile.runtime not in _OF_TENSORS:
        return weights_bytes(folder)
    width = _WIDTHS.get(profile.dtype) or (4 if _on_cpu(profile, device) else 2)
    return sum(_loaded(path, width) for path in _weights(folder))


def activation_bytes(profile: Profile, device: str, *, pictures: bool) -> int:
    """What to keep for the largest pass of a model that nobody measured."""
    if profile.runtime == "onnx":
        return PICTURE_BYTES if pictures else ACTIVATIONS_BYTES
    if profile.runtime not in _OF_TENSORS:
        return 0
    return ACTIVATIONS_BYTES * (1 if _on_cpu(profile, device) else _GPU_TIMES)


class _Layers(msgspec.Struct):
    """The keys of config.json that say what a token keeps; 0 where it has them not. The last ones are T5's, but
    for the part that reads tokens, where a model has others beside it."""

    num_hidden_layers: int = 0
    num_attention_heads: int = 0
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_size: int = 0
    num_layers: int = 0
    num_decoder_layers: int | None = None
    num_heads: int = 0
    d_kv: int = 0
    text_config: _Layers | None = None

    @property
    def numbers(self) -> int:
        """Of keys and values, of one token."""
        if self.d_kv:
            layers = self.num_layers if self.num_decoder_layers is None else self.num_decoder_layers
            return 2 * layers * self.num_heads * self.d_kv
        heads = self.num_attention_heads
        width = self.head_dim or (self.hidden_size // heads if heads else 0)
        key_heads = heads if self.num_key_value_heads is None else self.num_key_value_heads
        return 2 * self.num_hidden_layers * key_heads * width


def keys_bytes(card: Card, profile: Profile, folder: Path | None, device: str) -> int:
    """What the torch runtime takes for the keys of texts that a model generates; 0 if it is none."""
    if card.tasks.generate is None or profile.runtime != "torch" or folder is None:
        return 0
    try:
        whole = msgspec.json.decode((folder / "config.json").read_bytes(), type=_Layers)
    except (OSError, msgspec.DecodeError):  # which the runtime will say
        return 0
    layers = whole.text_config or whole
    on_cpu = _on_cpu(profile, device)
    width = _WIDTHS.get(profile.dtype) or (4 if on_cpu else 2)
    if not (place := layers.numbers * width):
        return 0
    said = profile.options.get("cache_tokens")
    anew = FAMILIES[card.family].anew
    most = places(card.max_tokens, profile.sequences, place, gpu=not on_cpu, anew=anew)
    return place * (said if isinstance(said, int) else most)


def _on_cpu(profile: Profile, device: str) -> bool:
    """Where the processor computes, whatever the lane's device is, too."""
    return profile.runtime == "candle" or device.partition(":")[0] == "cpu"


def _weights(folder: Path) -> list[Path]:
    """Files, and links to files: the hub's cache has links, whose files may have been cleaned away."""
    return [path for path in folder.iterdir() if path.suffix in WEIGHTS and path.is_file()]


def _loaded(path: Path, width: int) -> int:
    """Bytes of a file's tensors, of which floats have this width."""
    if path.suffix == ".safetensors":
        return safetensors.tensor_bytes(path, width)
    return path.stat().st_size
