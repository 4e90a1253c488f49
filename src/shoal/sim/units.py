"""Cuts simulated requests into units, with the gateway's own rule and its default limits."""

from __future__ import annotations

from shoal.core.admission_events import Rate
from shoal.gateway.units import REPLY_BYTES, UnitLimits, cut
from shoal.settings import GatewaySettings
from shoal.sim.scenario import TEXT_BYTES_PER_TOKEN, Model
from shoal.sim.unit import Front, Unit
from shoal.sim.workload import Request
from shoal.values import BYTES_PER_TOKEN

_SETTINGS = GatewaySettings()
#: Bytes of one item's answer: 384 float32, and its share of the frame.
_ANSWER_BYTES = 384 * 4 + 16
#: Text of every length: `cut` looks only at how long an item is.
_TEXT = bytes(64 * 1024)


def rate_of(model: Model, lanes: int) -> Rate:
    """How fast a model is answered, as pulses of `lanes` lanes would say."""
    _, token_s, square_s, item_s = model.cost
    longest = model.max_tokens
    return Rate(
        seconds_per_byte=token_s / BYTES_PER_TOKEN,
        seconds_per_item=item_s,
        lanes=lanes,
        longest_item_s=item_s + token_s * longest + square_s * longest * longest,
        batch_s=model.budget.seconds,
    )


def units_of(
    key: str, request: Request, model: Model, rate: Rate, timeout_s: float, front: Front
) -> list[Unit]:
    """The units of one request."""
    sizes = [int(tokens * TEXT_BYTES_PER_TOKEN) for tokens in request.lengths]
    if len(sizes) == 1:
        return [Unit(f"{key}.0", key, model.name, request.lengths, sizes[0], timeout_s, front)]
    limits = UnitLimits(
        min(_SETTINGS.unit_items, REPLY_BYTES // _ANSWER_BYTES),
        _SETTINGS.unit_bytes,
        model.budget.seconds,
    )
    spans = cut([_TEXT[:size] for size in sizes], limits, rate)
    return [
        Unit(
            f"{key}.{number}",
            key,
            model.name,
            request.lengths[span.start : span.end],
            span.size.bytes,
            timeout_s,
            front,
        )
        for number, span in enumerate(spans)
    ]
