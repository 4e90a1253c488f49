"""What the library is told of an architecture: `config.json` as it reads it, of each family.

It ignores what it does not know. So a key that changes what is computed, and that it never reads, must
have here the one value that it computes with, or is said in the words that it knows. What it refuses by
itself is not checked again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from shoal.errors import ModelLoadFailed
from shoal.runtimes.candle.spelling import MOST_IDS

Layer = Literal["full_attention", "sliding_attention"]


class Widths(msgspec.Struct, frozen=True):
    """Of a block: of its hidden states, inside its feed-forward part, and how many heads attend."""

    hidden: int
    inner: int
    heads: int


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """Keys of a family's config.json.

    Attributes:
        prefixes: under which classes with a head store the encoder, where the library knows none.
    """

    vocab_size: int
    prefixes: ClassVar[tuple[str, ...]] = ()

    @property
    def widths(self) -> Widths:
        raise NotImplementedError

    @property
    def changes(self) -> dict[str, Any]:
        """What the library is told otherwise than config.json has it."""
        return {}


class Usual(Keys, frozen=True, kw_only=True):
    """Those that say their widths in the usual words."""

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int

    @property
    def widths(self) -> Widths:
        return Widths(self.hidden_size, self.intermediate_size, self.num_attention_heads)


class Bert(Usual, frozen=True, kw_only=True):
    model_type: Literal["bert"]
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Literal[False] = False


class Roberta(Usual, frozen=True, kw_only=True):
    """All three are computed alike; the library knows one of them by name."""

    prefixes = ("roberta.",)
    model_type: Literal["roberta", "xlm-roberta", "camembert"]
    is_decoder: Literal[False] = False

    @property
    def changes(self) -> dict[str, Any]:
        return {"model_type": "xlm-roberta"}


class MPNet(Usual, frozen=True, kw_only=True):
    prefixes = ("mpnet.",)
    model_type: Literal["mpnet"]


class Rope(msgspec.Struct, frozen=True, kw_only=True):
    """Angles of positions that are not stretched."""

    rope_type: Literal["default"] = "default"
    type: Literal["default"] = "default"
    rope_theta: float | None = None


def _thetas(said: dict[Layer, Rope], keys: dict[Layer, str]) -> dict[str, float]:
    """The bases of each kind of layers, by the older keys that the library reads."""
    found = {key: said[layer].rope_theta for layer, key in keys.items() if layer in said}
    return {key: theta for key, theta in found.items() if theta is not None}


class ModernBert(Usual, frozen=True, kw_only=True):
    prefixes = ("model.",)
    model_type: Literal["modernbert"]
    layer_types: list[Layer] | None = None
    global_attn_every_n_layers: int = 3
    rope_parameters: dict[Layer, Rope] = {}

    def __post_init__(self) -> None:
        every = max(1, self.global_attn_every_n_layers)
        for number, layer in enumerate(self.layer_types or ()):
            if (layer == "full_attention") != (number % every == 0):
                raise ValueError(f"layer {number} is not of a pattern of {every}: {layer}")

    @property
    def changes(self) -> dict[str, Any]:
        keys: dict[Layer, str] = {
            "full_attention": "global_rope_theta",
            "sliding_attention": "local_rope_theta",
        }
        return _thetas(self.rope_parameters, keys)


class Nomic(Keys, frozen=True, kw_only=True):
    """As its publisher stores it, for code of its own."""

    prefixes = ("nomic_bert.", "bert.")
    model_type: Literal["nomic_bert"]
    n_embd: int
    n_inner: int
    n_head: int
    use_rms_norm: Literal[False] = False
    parallel_block: Literal[False] = False
    scale_attn_weights: Literal[True] = True
    scale_attn_by_inverse_layer_idx: Literal[False] = False
    num_experts: Literal[0] | None = None
    mlp_fc1_bias: bool = False
    mlp_fc2_bias: bool = False

    @property
    def widths(self) -> Widths:
        return Widths(self.n_embd, self.n_inner, self.n_head)

    @property
    def changes(self) -> dict[str, Any]:
        """Keys that the library cannot do without."""
        return {"mlp_fc1_bias": self.mlp_fc1_bias, "mlp_fc2_bias": self.mlp_fc2_bias}


class Gte(Usual, frozen=True, kw_only=True):
    """As its publisher stores it. How its code skips padding changes no vector."""

    prefixes = ("new.",)
    model_type: Literal["new"]
    logn_attention_scale: Literal[False] = False
    rope_parameters: None = None

    @property
    def changes(self) -> dict[str, Any]:
        return {"unpad_inputs": False, "use_memory_efficient_attention": False}


class Qwen3(Usual, frozen=True, kw_only=True):
    model_type: Literal["qwen3"]
    layer_types: list[Literal["full_attention"]] | None = None
    rope_scaling: Rope | None = None
    rope_parameters: Rope = Rope()

    @property
    def changes(self) -> dict[str, Any]:
        theta = self.rope_parameters.rope_theta
        return {} if theta is None else {"rope_theta": theta}


class Gemma3(Usual, frozen=True, kw_only=True):
    model_type: Literal["gemma3_text"]
    rope_parameters: dict[Layer, Rope] = {}

    @property
    def changes(self) -> dict[str, Any]:
        keys: dict[Layer, str] = {
            "full_attention": "rope_theta",
            "sliding_attention": "rope_local_base_freq",
        }
        return _thetas(self.rope_parameters, keys)


FAMILIES: dict[str, type[Keys]] = {
    "bert": Bert,
    "gemma3": Gemma3,
    "gte": Gte,
    "modernbert": ModernBert,
    "mpnet": MPNet,
    "nomic": Nomic,
    "qwen3": Qwen3,
    "roberta": Roberta,
}


def read(folder: Path, family: str) -> tuple[Keys, dict[str, Any]]:
    """The keys of a model of one of `FAMILIES`, and its config as the library is told it.

    Raises `ModelLoadFailed` naming file and key.
    """
    path = folder / "config.json"
    try:
        text = path.read_bytes()
        keys = msgspec.json.decode(text, type=FAMILIES[family])
        whole: dict[str, Any] = msgspec.json.decode(text)
    except OSError as error:
        raise ModelLoadFailed(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise ModelLoadFailed(f"{path}: {error}") from None
    if not 0 < keys.vocab_size <= MOST_IDS:
        raise ModelLoadFailed(
            f"{path}: vocab_size is {keys.vocab_size}; the candle runtime takes 1 to {MOST_IDS}"
        )
    return keys, whole | keys.changes
