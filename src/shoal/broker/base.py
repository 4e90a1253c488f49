"""What the rest of Shoal sees of the broker: values, the reasons a pull ends, and the seams.

Nothing here knows NATS' client library; everything else in this package implements it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from shoal.errors import ProtocolError

#: Handler of a core NATS message: (data, reply, status, subject). `status` is None for an ordinary
#: message and ``"503"`` when the server says that nobody listens where we published.
Handler = Callable[[bytes, str, str | None, str], None]

#: Why a pull ended. Every pull ends exactly once, and nothing is delivered to it afterwards.
#:
#: ``filled``: as many came as were asked for. ``expired``: its time ran out. ``empty``: a pull that
#: does not wait found nothing (more). ``withdrawn``: as asked. ``conflict``: the server ended it
#: (shutdown, a new leader, too many pulls); ask again. ``consumer_gone``: `ensure_consumer` first,
#: then ask again. ``disconnected``: ask again after the reconnect.
PullEnd = Literal[
    "filled", "expired", "empty", "withdrawn", "conflict", "consumer_gone", "disconnected"
]

OnDelivery = Callable[[int, "Delivery"], None]
OnEnd = Callable[[int, PullEnd], None]


class Delivery(msgspec.Struct, frozen=True):
    """One message from a stream, with what its ack subject says about it.

    Attributes:
        ack: subject at which it is acknowledged.
        delivered: 1 the first time, 2 and more when redelivered.
        timestamp_s: when the stream stored it, by the broker's clock (Unix time).
        pending: messages that wait behind it for the same consumer.
    """

    data: bytes
    ack: str
    delivered: int
    stream_sequence: int
    timestamp_s: float
    pending: int


# $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<nanoseconds>.<pending>, or
# $JS.ACK.<domain>.<account>.<the same seven>.<random> (ADR-15 of the NATS project).
_PLAIN_TOKENS = 9
_DOMAIN_TOKENS = 11


def delivery(data: bytes, ack: str) -> Delivery:
    """The delivery that `ack` describes. Raises `ProtocolError` if it is no ack subject."""
    tokens = ack.split(".")
    first = 4 if len(tokens) == _PLAIN_TOKENS else 6
    if not ack.startswith("$JS.ACK.") or (first == 6 and len(tokens) < _DOMAIN_TOKENS):
        raise ProtocolError(f"{ack!r} is not a JetStream ack subject")
    try:
        return Delivery(
            data,
            ack,
            int(tokens[first]),
            int(tokens[first + 1]),
            int(tokens[first + 3]) / 1e9,
            int(tokens[first + 4]),
        )
    except ValueError:
        raise ProtocolError(f"{ack!r} is not a JetStream ack subject") from None


class Bus(Protocol):
    """Core NATS: at most once, to whoever listens right now."""

    @property
    def connected(self) -> bool: ...

    @property
    def max_payload(self) -> int:
        """Largest message in bytes, headers included."""
        ...

    def inbox(self) -> str:
        """A subject that nobody else uses."""
        ...

    def publish(self, subject: str, data: bytes, reply: str = "") -> None:
        """Send. Raises `Unavailable` at once while disconnected or jammed; nothing is kept."""
        ...

    def subscribe(self, subject: str, handler: Handler) -> int:
        """Call `handler` for each message, in order, on the event loop; survives reconnects."""
        ...

    def unsubscribe(self, subscription: int) -> None: ...


class Queue(Protocol):
    """The gateway's side of JetStream."""

    def publish_unit(
        self, subject: str, data: bytes, ttl_s: float, message_id: str
    ) -> asyncio.Future[int]:
        """Put a unit on its stream; the future is the sequence, or `Overloaded`/`Unavailable`."""
        ...


class Acks(Protocol):
    """What can be said about a delivery. Each raises `Unavailable` while disconnected."""

    def ack(self, delivery_ack: str, reply: str = "") -> None:
        """Done: remove it. With `reply` the server confirms there, for a repeated ack too."""
        ...

    def nak(self, delivery_ack: str, delay_s: float = 0.0) -> None:
        """Give it back, to be delivered again after `delay_s`."""
        ...

    def in_progress(self, delivery_ack: str) -> None:
        """Restart its `ack_wait`."""
        ...

    def term(self, delivery_ack: str, reason: str = "") -> None:
        """Never deliver it again."""
        ...
