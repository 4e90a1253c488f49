"""Names on the broker: streams, subjects, consumers, and model names as one subject token.

Subject: ``shoal.<class>.<pool>.<model>``; one stream per class, one durable consumer per subject.
"""

from __future__ import annotations

import re

from shoal.errors import ProtocolError
from shoal.values import TrafficClass

PREFIX = "shoal"
REPLIES = f"{PREFIX}.reply"
CANCELS = f"{PREFIX}.cancel"
WORKER_PULSES = f"{PREFIX}.pulse.worker"
GATEWAY_PULSES = f"{PREFIX}.pulse.gateway"
PULLED = f"{PREFIX}.pulled"
DEAD_LETTERS = f"{PREFIX}.dead"
DEAD_STREAM = f"{PREFIX}-dead"
CLASSES: tuple[TrafficClass, ...] = ("work", "bulk")

# Letters, digits and '-' stand for themselves; every other byte becomes '_' and two hex digits.
# NATS forbids '.', '*', '>', whitespace and '/' in a token or a consumer name.
_PLAIN = re.compile(rb"[A-Za-z0-9-]")
_TOKEN = re.compile(r"(?:[A-Za-z0-9-]|_[0-9a-f]{2})+\Z")


def token(name: str) -> str:
    """`name` (a model, a pool) as one subject token; `name_of` is its inverse."""
    if not name:
        raise ProtocolError("an empty name cannot be a subject token")
    return "".join(
        chr(byte) if _PLAIN.match(bytes([byte])) else f"_{byte:02x}" for byte in name.encode()
    )


def name_of(token_: str) -> str:
    """The name a token stands for. Raises `ProtocolError` for anything `token` never makes."""
    if not _TOKEN.match(token_):
        raise ProtocolError(f"{token_!r} is not a subject token")
    raw = re.sub(r"_([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), token_)
    try:
        name = raw.encode("latin-1").decode()
    except UnicodeDecodeError:
        raise ProtocolError(f"{token_!r} does not decode to UTF-8") from None
    if token(name) != token_:
        raise ProtocolError(f"{token_!r} is not in its one canonical form")
    return name


def stream(klass: TrafficClass) -> str:
    """Name of the stream that holds one class of work."""
    return f"{PREFIX}-{klass}"


def work_subject(klass: TrafficClass, pool: str, model: str) -> str:
    """Where units of one model are published, and what its consumer filters."""
    return f"{PREFIX}.{klass}.{token(pool)}.{token(model)}"


def stream_subjects(klass: TrafficClass) -> str:
    """What the stream of one class subscribes to."""
    return f"{PREFIX}.{klass}.>"


def dead_subject(pool: str) -> str:
    """Where the dead letters of one pool are kept."""
    return f"{DEAD_LETTERS}.{token(pool)}"


def consumer(pool: str, model: str) -> str:
    """Durable consumer name of one (pool, model); '.' is not allowed in it, '=' is no token byte."""
    return f"{token(pool)}={token(model)}"


def pulled_subject(pool: str, groups: int, number: int) -> str:
    """Where the workers of one part of a pool hear what the others of it pull."""
    return f"{PULLED}.{token(pool)}.{groups}.{number}"


def reply_subject(gateway: str) -> str:
    """Where one gateway hears all its replies."""
    return f"{REPLIES}.{token(gateway)}"
