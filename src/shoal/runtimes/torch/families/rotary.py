"""Encoders with rotary positions and gated networks: builds and computes what a `Design` says.

No architecture is named here; where norms stand and which tokens see each other is data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from shoal.runtimes.torch.attention import attend_apart
from shoal.runtimes.torch.families.base import Attend, Seer, Shown
from shoal.runtimes.torch.families.plan import Design, Plan, Scale
from shoal.runtimes.torch.layers import Layers, Norm
from shoal.runtimes.torch.linear import Linear, activated
from shoal.runtimes.torch.packed import Packed
from shoal.runtimes.torch.rotary import Rotary, Rotation
from shoal.runtimes.torch.weights import Shape


class Designed(Protocol):
    """A config that says what its model is made of."""

    @property
    def design(self) -> Design: ...


def tensors(config: Designed) -> dict[str, Shape]:
    """Names and shapes of all tensors of the encoder."""
    return config.design.tensors()


class RotaryEncoder:
    """The encoder; see `Encoder` for its attributes."""

    def __init__(self, config: Designed, layers: Layers, seer: Seer | None = None) -> None:
        """`seer`: of a model that reads images among tokens."""
        design = config.design
        self.vocabulary = design.vocabulary
        self.max_tokens = design.max_tokens
        self.width = design.width
        self.activation_bytes_per_token = max(
            seer.bytes_per_token if seer else 0,
            *(plan.activation_bytes_per_token(layers) for plan in design.layers),
        )
        self.words = layers.table(design.words)
        self.seer = seer
        self._embed = _Embedding(design, layers, seer or _without, self.words)
        self._rotaries = {
            name: Rotary(frequencies, layers.device)
            for name, frequencies in design.frequencies.items()
        }
        self._layers = [_Layer(plan, layers) for plan in design.layers]
        self._norm = _norm(design.last_norm, "", layers)
        self.kept = [plan.kept for plan in design.layers]

    def forward(self, packed: Packed) -> Tensor:
        """Hidden states after the last layer, [computed, hidden]."""
        rotations = {name: rotary.of(packed) for name, rotary in self._rotaries.items()}
        attends = [
            partial(attend_apart, packed=packed, attention=kept.attention) for kept in self.kept
        ]
        return self._computed(self._embed(packed), rotations, attends)

    def carry_on(
        self,
        tokens: Tensor,
        positions: Tensor,
        attends: Sequence[Attend],
        shown: Shown | None = None,
    ) -> Tensor:
        """Those of more tokens of any sequences; see `Decoder`."""
        rotations = {name: rotary.at(positions) for name, rotary in self._rotaries.items()}
        return self._computed(self._embed.words(tokens, shown), rotations, attends)

    def _computed(
        self, hidden: Tensor, rotations: dict[str, Rotation], attends: Sequence[Attend]
    ) -> Tensor:
        for layer, attend in zip(self._layers, attends, strict=True):
            hidden = layer(hidden, rotations[layer.turn] if layer.turn else None, attend)
        return self._norm(hidden)


#: See `Seer`.
_Seen = Callable[[Tensor, Packed], Tensor]


class _Embedding:
    def __init__(self, design: Design, layers: Layers, seen: _Seen, words: Tensor) -> None:
        self._seen, self._words = seen, words
        self._types = layers.tensor(design.types) if design.types else None
        self._scale = design.scale
        self._norm = _norm(design.first_norm, "", layers)

    def words(self, tokens: Tensor, shown: Shown | None) -> Tensor:
        """Of a text alone, whose tokens have no types."""
        rows = self._scaled(torch.embedding(self._words, tokens))
        if shown is not None:
            rows.index_copy_(0, shown.where, shown.rows.to(rows.dtype))
        return self._norm(rows)

    def __call__(self, packed: Packed) -> Tensor:
        rows = torch.embedding(self._words, packed.tokens)
        if self._types is not None:
            # Texts without a second segment, which are most, are all of type 0.
            alike = packed.types is None or len(self._types) == 1
            rows.add_(self._types[0] if alike else self._types[packed.types])
        return self._norm(self._seen(self._scaled(rows), packed))

    def _scaled(self, rows: Tensor) -> Tensor:
        return rows if self._scale == 1 else rows.mul_(self._scale)


class _Layer:
    def __init__(self, plan: Plan, layers: Layers) -> None:
        self._plan, self.turn = plan, plan.turn
        at, norms = plan.at, plan.norms
        self._before_attention = _norm(norms.before_attention, at, layers)
        self._qkv = plan.qkv.build(at, layers)
        self._query_norm = _norm(norms.query, at, layers)
        self._key_norm = _norm(norms.key, at, layers)
        self._add_attended = _addition(plan.out.build(at, layers), norms.attended, at, layers)
        self._after_attention = _norm(norms.after_attention, at, layers)
        self._before_network = _norm(norms.before_network, at, layers)
        self._inner = plan.inner.build(at, layers)
        self._add_computed = _addition(plan.down.build(at, layers), norms.computed, at, layers)
        self._after_network = _norm(norms.after_network, at, layers)

    def __call__(self, hidden: Tensor, rotation: Rotation | None, attend: Attend) -> Tensor:
        attended = self._attend(self._before_attention(hidden), rotation, attend)
        hidden = self._after_attention(self._add_attended(attended, hidden))
        computed = self._gate(self._inner(self._before_network(hidden)))
        return self._after_network(self._add_computed(computed, hidden))

    def _attend(self, rows: Tensor, rotation: Rotation | None, attend: Attend) -> Tensor:
        plan = self._plan
        qkv = self._qkv(rows).view(len(rows), -1, plan.head_width)
        turning, value = qkv.tensor_split((plan.heads + plan.key_heads,), 1)
        if plan.norms.query or plan.norms.key:
            query, key = turning.tensor_split((plan.heads,), 1)
            turning = torch.cat((self._query_norm(query), self._key_norm(key)), 1)
        if rotation is not None:
            turning = rotation(turning)
        query, key = turning.to(value.dtype).tensor_split((plan.heads,), 1)
        return attend(query, key, value)

    def _gate(self, inner: Tensor) -> Tensor:
        halves = inner.chunk(2, -1)
        gate = self._plan.gate
        return activated(halves[gate], self._plan.activation).mul_(halves[1 - gate])


def _norm(scale: Scale | None, at: str, layers: Layers) -> Norm:
    return scale.build(at, layers) if scale else _unchanged


def _unchanged(rows: Tensor) -> Tensor:
    return rows


def _without(rows: Tensor, _: Packed) -> Tensor:
    return rows


def _addition(product: Linear, scale: Scale | None, at: str, layers: Layers) -> Any:
    """The product of rows, normed or not, added to a residual."""
    if scale is None:
        return product.add
    norm = scale.build(at, layers)
    return lambda rows, residual: norm(product(rows)).add_(residual)
