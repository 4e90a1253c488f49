"""GTE's encoders (Zhang et al., mGTE, 2024): BERT's layers with rotary positions and gated networks.

Serves what the published models call ``new`` and `transformers` calls ``gte``. Reference:
`transformers.models.gte.modeling_gte`; for positions stretched by ``ntk`` see `rope`.
"""

from __future__ import annotations

from typing import Literal

from shoal.runtimes.torch.attention import Attention
from shoal.runtimes.torch.families.base import Family, check_heads
from shoal.runtimes.torch.families.plan import Design, Norms, Plan, Product, Scale
from shoal.runtimes.torch.families.rotary import RotaryEncoder, tensors
from shoal.runtimes.torch.heads.layout import Classifier, Layout, Linear, MaskedLM, Norm
from shoal.runtimes.torch.linear import Activation
from shoal.runtimes.torch.rope import RopeKeys, frequencies

_WORDS = "embeddings.word_embeddings.weight"
_TURN = "all"

#: Where config.json says none.
_THETA = {"new": 10_000.0, "gte": 160_000.0}


class GteConfig(RopeKeys, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["new", "gte"]
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int
    type_vocab_size: int = 1
    hidden_act: Activation = "gelu"
    layer_norm_eps: float = 1e-12
    # What the published models' own code could also compute.
    layer_norm_type: Literal["layer_norm"] = "layer_norm"
    position_embedding_type: Literal["rope"] = "rope"
    pack_qkv: Literal[True] = True
    logn_attention_scale: Literal[False] = False

    def __post_init__(self) -> None:
        check_heads(self, "hidden_size", "num_attention_heads")

    @property
    def design(self) -> Design:
        """What the model is made of."""
        head_width = self.hidden_size // self.num_attention_heads
        rope = self.rope(_THETA[self.model_type])
        types = "embeddings.token_type_embeddings.weight" if self.type_vocab_size else None
        return Design(
            vocabulary=self.vocab_size,
            width=self.hidden_size,
            max_tokens=self.max_position_embeddings,
            words=_WORDS,
            types=types,
            type_count=self.type_vocab_size,
            first_norm=self._norm("embeddings.LayerNorm"),
            layers=[self._layer(number) for number in range(self.num_hidden_layers)],
            frequencies={_TURN: frequencies(rope, head_width, self.max_position_embeddings)},
        )

    def _layer(self, number: int) -> Plan:
        hidden, inner, heads = self.hidden_size, self.intermediate_size, self.num_attention_heads
        return Plan(
            at=f"encoder.layer.{number}.",
            heads=heads,
            key_heads=heads,
            head_width=hidden // heads,
            attention=Attention(),
            turn=_TURN,
            qkv=Product(hidden, {"attention.qkv_proj": 3 * hidden}, bias=True),
            out=Product(hidden, {"attention.o_proj": hidden}, bias=True),
            inner=Product(hidden, {"mlp.up_gate_proj": 2 * inner}),
            down=Product(inner, {"mlp.down_proj": hidden}, bias=True),
            activation=self.hidden_act,
            gate=1,
            norms=Norms(after_attention=self._norm("attn_ln"), after_network=self._norm("mlp_ln")),
        )

    def _norm(self, name: str) -> Scale:
        return Scale(name, self.hidden_size, self.layer_norm_eps, "layer")


def _rename(stored: str) -> str | None:
    return stored.removeprefix("new.").removeprefix("gte.")


def _heads(config: GteConfig) -> Layout:
    # `transformers` fixes what the models' own code takes from the config.
    activation: Activation = "gelu" if config.model_type == "gte" else config.hidden_act
    return Layout(
        sequence=Classifier((Linear("pooler.dense", "tanh"), Linear("classifier"))),
        tokens=(Linear("classifier"),),
        masked_lm=MaskedLM(
            (Linear("lm_head.dense", activation), Norm("lm_head.norm", config.layer_norm_eps)),
            _WORDS,
            "lm_head.decoder.bias",
        ),
    )


GTE = Family(GteConfig, _rename, tensors, RotaryEncoder, _heads)
