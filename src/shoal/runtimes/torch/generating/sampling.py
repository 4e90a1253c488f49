"""Chooses the next token of many texts at once, each by its own `Sampling`: docs/protocol.md, "Sequences".

All of it is computed where the logits are; what was chosen comes to the host in one copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shoal.runtimes.drawing import drawn
from shoal.runtimes.generating.choice import Choice, penalises
from shoal.runtimes.torch.generating.drawing import Rules, draw
from shoal.runtimes.torch.generating.penalties import Penalties
from shoal.wire.socket import Sampling

_NEVER = float("-inf")


class Row(NamedTuple):
    """A text that goes on.

    Attributes:
        place: its own among the sequences of the model.
        length: of the text so far.
        allowed: bool [vocabulary], by its grammar; None: any token.
    """

    sampling: Sampling
    place: int
    length: int
    allowed: NDArray[np.bool_] | None = None


class Sampler:
    """For a model with so many places of sequences."""

    def __init__(self, places: int, vocabulary: int, device: torch.device) -> None:
        self._device = device
        self._penalties = Penalties(places, vocabulary, device)

    @staticmethod
    def bytes(places: int, vocabulary: int) -> int:
        """At most: tables, and logits of all places, changed, ordered and added up in float64."""
        rows = places * vocabulary * (3 * 4 + 2 * 8 + 2 * 8)
        return rows + Penalties.bytes(places, vocabulary)

    def begin(self, place: int, sampling: Sampling, prompt: list[int]) -> None:
        """A sequence takes this place."""
        if penalises(sampling):
            self._penalties.begin(place, prompt)

    def choose(self, logits: Tensor, rows: list[Row]) -> list[Choice]:
        """The next tokens. logits: float32 [rows, vocabulary], which this may change."""
        most = max(row.sampling.logprobs for row in rows)
        told = logits.log_softmax(1) if most >= 0 else None
        scores = self._allowed(self._biased(self._penalised(logits, rows), rows), rows)
        highest = scores.amax(1, keepdim=True)
        chosen = scores.argmax(1)
        drawing = [at for at, row in enumerate(rows) if row.sampling.temperature > 0]
        if drawing:
            at = self._ids(drawing)
            below = (scores[at] - highest[at]).nan_to_num_(nan=0.0, neginf=_NEVER)
            chosen[at] = self._drawn(below, [rows[n] for n in drawing])
        penalised = [at for at, row in enumerate(rows) if penalises(row.sampling)]
        if penalised:
            places = self._ids([rows[at].place for at in penalised])
            self._penalties.add(places, chosen[self._ids(penalised)])
        return _told(chosen, highest.isfinite(), told, most)

    def _penalised(self, scores: Tensor, rows: list[Row]) -> Tensor:
        some = [at for at, row in enumerate(rows) if penalises(row.sampling)]
        if not some:
            return scores
        at, places = self._ids(some), self._ids([rows[n].place for n in some])
        asked = [rows[n].sampling for n in some]
        by = [
            [s.repetition for s in asked],
            [s.presence for s in asked],
            [s.frequency for s in asked],
        ]
        scores[at] = self._penalties.taken_off(scores[at], places, self._numbers(by).float())
        return scores

    def _biased(self, scores: Tensor, rows: list[Row]) -> Tensor:
        some = [
            (at, token, by)
            for at, row in enumerate(rows)
            for token, by in row.sampling.bias.items()
        ]
        if some:
            at, tokens, by = zip(*some, strict=True)
            added = torch.tensor(by, dtype=torch.float32).to(self._device, non_blocking=True)
            scores.index_put_((self._ids(at), self._ids(tokens)), added, accumulate=True)
        return scores

    def _allowed(self, scores: Tensor, rows: list[Row]) -> Tensor:
        some = [(at, row.allowed) for at, row in enumerate(rows) if row.allowed is not None]
        if some:
            at = self._ids([at for at, _ in some])
            allowed = torch.from_numpy(np.stack([mask for _, mask in some]))
            allowed = allowed.to(self._device, non_blocking=True)
            scores[at] = scores[at].masked_fill(~allowed, _NEVER)
        return scores

    def _drawn(self, scores: Tensor, rows: list[Row]) -> Tensor:
        """Scores are 0 at their highest, so that no temperature makes one too large."""
        rules: list[Callable[[Row], float]] = [
            lambda row: row.sampling.temperature,
            lambda row: max(0, row.sampling.top_k),
            lambda row: row.sampling.top_p,
            lambda row: row.sampling.min_p,
            lambda row: drawn(row.sampling.seed, row.length),
        ]
        temperature, *others = self._numbers([[rule(row) for row in rows] for rule in rules])
        return draw(scores / temperature.float(), Rules(*others))

    def _numbers(self, values: list[list[float]]) -> Tensor:
        """[kinds, rows, 1] float64."""
        numbers = torch.tensor(values, dtype=torch.float64)[:, :, None]
        return numbers.to(self._device, non_blocking=True)

    def _ids(self, values: list[int] | tuple[int, ...]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64).to(self._device, non_blocking=True)


def _told(chosen: Tensor, sound: Tensor, told: Tensor | None, most: int) -> list[Choice]:
    """Everything in one copy: numbers of 32 bits, whatever they mean."""
    parts = [chosen.int()[:, None], sound.int()]
    if told is not None:
        top = told.topk(most) if most else None
        parts.append(told.gather(1, chosen[:, None]).view(torch.int32))
        parts += [] if top is None else [top.indices.int(), top.values.view(torch.int32)]
    table: NDArray[np.int32] = torch.cat(parts, 1).cpu().numpy()
    numbers = table.view(np.float32)
    most = max(0, most)
    return [
        Choice(
            int(row[0]),
            bool(row[1]),
            float(number[2]) if told is not None else 0.0,
            row[3 : 3 + most],
            number[3 + most :],
        )
        for row, number in zip(table, numbers, strict=True)
    ]
