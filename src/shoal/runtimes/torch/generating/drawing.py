"""Which of the tokens that are left a number draws: many rows at once, each by rules of its own.

On a CPU only the likeliest are put in order: what is drawn is nearly always one of them, and of the rows
where it may not be, all are.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

#: The likeliest of a row that are tried first on a CPU.
_FIRST = 512


class Rules(NamedTuple):
    """float64 [rows, 1] each; see `wire.socket.Sampling`. `number`: that draws, in [0, 1)."""

    top_k: Tensor
    top_p: Tensor
    min_p: Tensor
    number: Tensor


def draw(scores: Tensor, rules: Rules) -> Tensor:
    """An id a row, int64 [rows]. scores: [rows, vocabulary] float32, over the temperature."""
    if scores.is_cuda or scores.shape[1] <= _FIRST:
        return _of_all(scores, rules)
    first = scores.topk(_FIRST)
    by_id = first.indices.sort(1)
    values, order = first.values.gather(1, by_id.indices).sort(dim=1, descending=True, stable=True)
    ids = by_id.values.gather(1, order)
    at, sure = _drawn(values, scores.logsumexp(1, keepdim=True), rules)
    # Of tokens as likely as the last of these, others may come before it.
    sure &= values.gather(1, at) > values[:, -1:]
    chosen = ids.gather(1, at)[:, 0]
    left = (~sure[:, 0]).nonzero()[:, 0]
    if len(left):
        chosen[left] = _of_all(scores[left], Rules(*(rule[left] for rule in rules)))
    return chosen


def _of_all(scores: Tensor, rules: Rules) -> Tensor:
    values, ids = scores.sort(dim=1, descending=True, stable=True)
    at, _ = _drawn(values, scores.logsumexp(1, keepdim=True), rules)
    return ids.gather(1, at)[:, 0]


def _drawn(values: Tensor, total: Tensor, rules: Rules) -> tuple[Tensor, Tensor]:
    """Where in a row, and whether that is so whatever comes after these: [rows, 1] both.

    values: [rows, n], the highest first. total: logarithm of the sum over all, [rows, 1].
    """
    count = values.shape[1]
    likely = (values - values[:, :1]).double().exp()
    reached = likely.cumsum(1)
    whole = (total - values[:, :1]).double().exp()
    limited = rules.top_k > 0
    last = torch.where(limited, rules.top_k, count).clamp(max=count).long() - 1
    mass = torch.where(limited, reached.gather(1, last), whole)
    left = (reached - likely < rules.top_p * mass) | (rules.top_p >= 1)
    left &= (likely >= rules.min_p) & (torch.arange(count, device=values.device) <= last)
    left[:, 0] = True
    kept = left.sum(1, keepdim=True)
    everything = ~limited & (rules.top_p >= 1) & (rules.min_p == 0)
    share = torch.where(everything, whole, reached.gather(1, kept - 1)) * rules.number
    possible = torch.minimum(kept, (likely > 0).sum(1, keepdim=True))
    at = torch.minimum((reached <= share).sum(1, keepdim=True), possible - 1)
    inside = torch.where(everything, share < reached[:, -1:], kept < count)
    return at, inside & (rules.top_k <= count)
