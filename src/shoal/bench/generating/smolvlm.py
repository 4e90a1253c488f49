"""A model of SmolVLM's architecture with random weights, for what pictures cost.

It is as slow as a real one of its shape; what it sees and says means nothing.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.catalog.convert.tensors import Tensor
from shoal.catalog.convert.writer import write as write_weights
from shoal.wire.socket import Load

#: Of random weights; norms are ones.
_DEVIATION = np.float32(0.02)
_NORMS = ("norm.weight", "norm1.weight", "norm2.weight", "layernorm.weight")


class Shape(msgspec.Struct, frozen=True):
    """Its sizes, by default about those of SmolVLM-256M (Marafioti et al., 2025).

    Attributes:
        vision_dim, vision_layers: of the tower that looks at squares of `side` pixels, in patches of `patch`.
        factor: so many patches a side become the row of one token.
    """

    vocabulary: int = 49_280
    dim: int = 576
    inner: int = 1536
    layers: int = 30
    heads: int = 9
    key_heads: int = 3
    max_tokens: int = 8192
    vision_dim: int = 768
    vision_layers: int = 12
    vision_heads: int = 12
    side: int = 512
    patch: int = 16
    factor: int = 4

    @property
    def place(self) -> int:
        """The token that stands for a row of a picture: no other one is as high."""
        return self.vocabulary - 1

    @property
    def rows(self) -> int:
        """Of a square, while it is looked at."""
        return (self.side // self.patch) ** 2

    @property
    def tokens(self) -> int:
        """Of a square, in a prompt."""
        return self.rows // self.factor**2

    def squares(self, pixels: int) -> int:
        """What a picture of so many pixels a side is cut into, and the whole; or the whole alone."""
        cut = math.ceil(pixels / self.side) ** 2
        return cut if cut == 1 else cut + 1

    def config(self) -> dict[str, object]:
        """As config.json has it."""
        text = {
            "vocab_size": self.vocabulary,
            "hidden_size": self.dim,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_heads,
            "max_position_embeddings": self.max_tokens,
            "model_type": "llama",
        }
        vision = {
            "hidden_size": self.vision_dim,
            "intermediate_size": 4 * self.vision_dim,
            "num_hidden_layers": self.vision_layers,
            "num_attention_heads": self.vision_heads,
            "image_size": self.side,
            "patch_size": self.patch,
            "model_type": "smolvlm_vision",
        }
        return {
            "model_type": "smolvlm",
            "text_config": text,
            "vision_config": vision,
            "image_token_id": self.place,
            "scale_factor": self.factor,
        }


def write(folder: Path, shape: Shape) -> int:
    """Write its files, bfloat16, into `folder`; returns how many weights it has."""
    from shoal.runtimes.torch.families.decoder import GENERATOR  # imports torch
    from shoal.runtimes.torch.families.idefics3 import IDEFICS3, Idefics3Config

    config = shape.config()
    (folder / "config.json").write_bytes(msgspec.json.encode(config))
    said = {
        "size": {"longest_edge": 4 * shape.side},
        "max_image_size": {"longest_edge": shape.side},
    }
    (folder / "preprocessor_config.json").write_bytes(msgspec.json.encode(said))
    shapes = IDEFICS3.tensors(msgspec.convert(config, Idefics3Config))
    shapes = shapes | {GENERATOR: (shape.vocabulary, shape.dim)}
    rng = np.random.default_rng(3)
    tensors = {name: Tensor(of, partial(_random, rng, name, of)) for name, of in shapes.items()}
    write_weights(folder / "model.safetensors", tensors, "bfloat16", lambda *_: None)
    return sum(tensor.size for tensor in tensors.values())


def _random(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    if name.endswith(_NORMS):
        return np.ones(shape, np.float32)
    if name.endswith(".bias"):
        return np.zeros(shape, np.float32)
    return rng.standard_normal(shape, np.float32) * _DEVIATION


def load_of(folder: Path, shape: Shape, sequences: int, cache_tokens: int, threads: int) -> Load:
    """What the torch runtime is told: so many texts at once, and room for so many tokens of all."""
    return Load(
        "smolvlm",
        str(folder),
        "idefics3",
        {"generate": {"head": "generate"}},
        max_tokens=shape.max_tokens,
        sequences=sequences,
        options={"cache_tokens": cache_tokens},
        threads=threads,
    )
