"""Nomic BERT (Nussbaum et al., 2024): BERT's layers with rotary positions and a gated network.

Configs come in two kinds: with the names of `transformers`, and with those of the code that the
published models brought along (``n_embd`` and so on); tensors have the names of the latter in both.
Reference: `transformers.models.nomic_bert.modeling_nomic_bert`.
"""

from __future__ import annotations

from typing import Literal

from shoal.runtimes.torch.attention import Attention
from shoal.runtimes.torch.families.base import Family, check_heads
from shoal.runtimes.torch.families.plan import Design, Norms, Plan, Product, Scale
from shoal.runtimes.torch.families.rotary import RotaryEncoder, tensors
from shoal.runtimes.torch.heads.layout import Classifier, Layout, Linear, MaskedLM, Norm
from shoal.runtimes.torch.linear import Activation
from shoal.runtimes.torch.rope import Frequencies, Rope, RopeKeys, frequencies

_WORDS = "embeddings.word_embeddings.weight"
_TURN = "all"

#: Names of `transformers` -> those of the models' own code.
_OWN_NAMES = {
    "hidden_size": "n_embd",
    "intermediate_size": "n_inner",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions",
}

_GATED: dict[str, Activation] = {"swiglu": "silu", "geglu": "gelu"}


class NomicConfig(RopeKeys, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed.

    `rotary_scaling_factor`: items longer than `max_trained_positions` turn slower.
    """

    model_type: Literal["nomic_bert"]
    vocab_size: int
    type_vocab_size: int = 2
    hidden_size: int | None = None
    intermediate_size: int | None = None
    num_hidden_layers: int | None = None
    num_attention_heads: int | None = None
    max_position_embeddings: int | None = None
    hidden_act: Activation = "silu"
    layer_norm_eps: float | None = None
    n_embd: int | None = None
    n_inner: int | None = None
    n_layer: int | None = None
    n_head: int | None = None
    n_positions: int | None = None
    activation_function: Literal["swiglu", "geglu"] | None = None
    layer_norm_epsilon: float | None = None
    rotary_emb_base: float | None = None
    rotary_emb_fraction: float = 1.0
    rotary_scaling_factor: float | None = None
    max_trained_positions: int = 2048
    # What the models' own code could also compute.
    qkv_proj_bias: Literal[False] = False
    mlp_fc1_bias: Literal[False] = False
    mlp_fc2_bias: Literal[False] = False
    prenorm: Literal[False] = False
    causal: Literal[False] = False
    parallel_block: Literal[False] = False
    use_rms_norm: Literal[False] = False
    rotary_emb_interleaved: Literal[False] = False
    rotary_emb_scale_base: None = None
    scale_attn_weights: Literal[True] = True
    scale_attn_by_inverse_layer_idx: Literal[False] = False
    num_experts: Literal[0] | None = None

    def __post_init__(self) -> None:
        for name, own in _OWN_NAMES.items():
            if getattr(self, name) is None and getattr(self, own) is None:
                raise ValueError(f"neither {name} nor {own} is there")
        if not 0 < self.rotary_emb_fraction <= 1:
            raise ValueError(f"rotary_emb_fraction {self.rotary_emb_fraction} is not above 0 to 1")
        check_heads(self, self._key("hidden_size"), self._key("num_attention_heads"))

    @property
    def own(self) -> bool:
        """Whether the config is of the models' own code."""
        return self.n_embd is not None

    def _key(self, name: str) -> str:
        return _OWN_NAMES[name] if self.own else name

    def _size(self, name: str) -> int:
        size: int = getattr(self, self._key(name))
        return size

    @property
    def activation(self) -> Activation:
        """Of the gates and of the masked-LM head."""
        own = self.activation_function
        return _GATED[own] if own is not None else self.hidden_act

    @property
    def eps(self) -> float:
        """Of the norms."""
        return self.layer_norm_epsilon or self.layer_norm_eps or 1e-12

    @property
    def design(self) -> Design:
        """What the model is made of."""
        return Design(
            vocabulary=self.vocab_size,
            width=self._size("hidden_size"),
            max_tokens=self._size("max_position_embeddings"),
            words=_WORDS,
            types="embeddings.token_type_embeddings.weight" if self.type_vocab_size else None,
            type_count=self.type_vocab_size,
            first_norm=self._norm("emb_ln"),
            layers=[self._layer(number) for number in range(self._size("num_hidden_layers"))],
            frequencies={_TURN: self._frequencies()},
        )

    def _frequencies(self) -> Frequencies:
        width = self._size("hidden_size") // self._size("num_attention_heads")
        if not self.own:
            return frequencies(self.rope(1_000.0), width, self._size("max_position_embeddings"))
        theta, factor = self.rotary_emb_base or 10_000.0, self.rotary_scaling_factor
        stretched = Rope(rope_type="dynamic", factor=factor) if factor else Rope()
        rope = stretched.over(theta, self.rotary_emb_fraction)
        return frequencies(rope, width, self.max_trained_positions)

    def _layer(self, number: int) -> Plan:
        hidden, inner = self._size("hidden_size"), self._size("intermediate_size")
        heads = self._size("num_attention_heads")
        return Plan(
            at=f"encoder.layers.{number}.",
            heads=heads,
            key_heads=heads,
            head_width=hidden // heads,
            attention=Attention(),
            turn=_TURN,
            qkv=Product(hidden, {"attn.Wqkv": 3 * hidden}),
            out=Product(hidden, {"attn.out_proj": hidden}),
            inner=Product(hidden, {"mlp.fc11": inner, "mlp.fc12": inner}),
            down=Product(inner, {"mlp.fc2": hidden}),
            activation=self.activation,
            gate=1,
            norms=Norms(after_attention=self._norm("norm1"), after_network=self._norm("norm2")),
        )

    def _norm(self, name: str) -> Scale:
        return Scale(name, self._size("hidden_size"), self.eps, "layer")


def _rename(stored: str) -> str | None:
    return stored.removeprefix("nomic_bert.").removeprefix("bert.")


def _heads(config: NomicConfig) -> Layout:
    head = "cls.predictions"
    return Layout(
        sequence=Classifier((Linear("pooler.dense", "tanh"), Linear("classifier"))),
        tokens=(Linear("classifier"),),
        masked_lm=MaskedLM(
            (
                Linear(f"{head}.transform.dense", config.activation),
                Norm(f"{head}.transform.layer_norm", config.eps),
            ),
            _WORDS,
            f"{head}.decoder.bias" if config.own else f"{head}.bias",
        ),
    )


NOMIC = Family(NomicConfig, _rename, tensors, RotaryEncoder, _heads)
