"""BERT (Devlin et al., 2018): learned positions, layer norm after each residual.

Serves `BertModel` and every ``BertFor...``, whose encoder sits under ``bert.``. Reference:
`transformers.models.bert.modeling_bert`.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import torch
from torch import Tensor

from shoal.runtimes.torch.attention import attend
from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.heads.layout import Classifier, Layout, Linear, MaskedLM, Norm
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.linear import Activation
from shoal.runtimes.torch.packed import Packed
from shoal.runtimes.torch.weights import Shape


class BertConfig(msgspec.Struct, frozen=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["bert"]
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    hidden_act: Activation = "gelu"
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Literal[False] = False
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is no multiple of "
                f"num_attention_heads {self.num_attention_heads}"
            )


def _rename(stored: str) -> str | None:
    name = stored.removeprefix("bert.")
    if name == "embeddings.position_ids":  # counted, not learnt
        return None
    # Checkpoints converted from TensorFlow name layer norms so.
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
        "LayerNorm.beta", "LayerNorm.bias"
    )


def _tensors(config: BertConfig) -> dict[str, Shape]:
    hidden, inner = config.hidden_size, config.intermediate_size
    shapes: dict[str, Shape] = {
        "embeddings.word_embeddings.weight": (config.vocab_size, hidden),
        "embeddings.position_embeddings.weight": (config.max_position_embeddings, hidden),
        "embeddings.token_type_embeddings.weight": (config.type_vocab_size, hidden),
        "embeddings.LayerNorm.weight": (hidden,),
        "embeddings.LayerNorm.bias": (hidden,),
    }
    for layer in range(config.num_hidden_layers):
        for part, out, into in (
            ("attention.self.query", hidden, hidden),
            ("attention.self.key", hidden, hidden),
            ("attention.self.value", hidden, hidden),
            ("attention.output.dense", hidden, hidden),
            ("intermediate.dense", inner, hidden),
            ("output.dense", hidden, inner),
        ):
            shapes[f"encoder.layer.{layer}.{part}.weight"] = (out, into)
            shapes[f"encoder.layer.{layer}.{part}.bias"] = (out,)
        for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"encoder.layer.{layer}.{norm}.weight"] = (hidden,)
            shapes[f"encoder.layer.{layer}.{norm}.bias"] = (hidden,)
    return shapes


def _heads(config: BertConfig) -> Layout:
    transform = "cls.predictions.transform"
    return Layout(
        sequence=Classifier((Linear("pooler.dense", "tanh"), Linear("classifier"))),
        tokens=(Linear("classifier"),),
        masked_lm=MaskedLM(
            (
                Linear(f"{transform}.dense", config.hidden_act),
                Norm(f"{transform}.LayerNorm", config.layer_norm_eps),
            ),
            *(
                ("embeddings.word_embeddings.weight", "cls.predictions.bias")
                if config.tie_word_embeddings
                else ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
            ),
        ),
    )


class Bert:
    """The encoder; see `Encoder` for its attributes."""

    def __init__(self, config: BertConfig, layers: Layers) -> None:
        hidden, inner = config.hidden_size, config.intermediate_size
        self.vocabulary = config.vocab_size
        self.max_tokens = config.max_position_embeddings
        self.width = hidden
        # Hidden and residual rows; attended rows, and the wider of fused q/k/v and inner rows.
        self.activation_bytes_per_token = (
            2 * hidden * layers.stream_dtype.itemsize
            + (hidden + max(3 * hidden, inner)) * layers.dtype.itemsize
        )
        self._words = layers.table("embeddings.word_embeddings.weight")
        types = layers.tensor("embeddings.token_type_embeddings.weight")
        # Most texts are all of token type 0, so its row is added to the positions once, and the
        # other types are what they differ by.
        self._positions = layers.tensor("embeddings.position_embeddings.weight") + types[0]
        self._types = types - types[0] if len(types) > 1 else None
        self._norm = layers.layer_norm("embeddings.LayerNorm", config.layer_norm_eps)
        self._layers = [_Layer(config, n, layers) for n in range(config.num_hidden_layers)]

    def forward(self, packed: Packed) -> Tensor:
        """Hidden states after the last layer, [computed, hidden]."""
        rows = torch.embedding(self._words, packed.tokens)
        rows.add_(torch.embedding(self._positions, packed.positions))
        if packed.types is not None and self._types is not None:
            rows.add_(torch.embedding(self._types, packed.types))
        hidden = self._norm(rows)
        for layer in self._layers:
            hidden = layer(hidden, packed)
        return hidden


class _Layer:
    def __init__(self, config: BertConfig, number: int, layers: Layers) -> None:
        at, eps = f"encoder.layer.{number}", config.layer_norm_eps
        attention = f"{at}.attention.self"
        self._heads = config.num_attention_heads
        self._qkv = layers.linear(f"{attention}.query", f"{attention}.key", f"{attention}.value")
        self._out = layers.linear(f"{at}.attention.output.dense")
        self._norm = layers.layer_norm(f"{at}.attention.output.LayerNorm", eps)
        self._up = layers.linear(f"{at}.intermediate.dense", activation=config.hidden_act)
        self._down = layers.linear(f"{at}.output.dense")
        self._last_norm = layers.layer_norm(f"{at}.output.LayerNorm", eps)

    def __call__(self, hidden: Tensor, packed: Packed) -> Tensor:
        attended = attend(self._qkv(hidden), packed, self._heads)
        hidden = self._norm(self._out.add(attended, hidden))
        return self._last_norm(self._down.add(self._up(hidden), hidden))


BERT = Family(BertConfig, _rename, _tensors, Bert, _heads)
