"""How a check ends before its end: it found a fault, or it cannot say anything of this runtime."""

from __future__ import annotations

from shoal.errors import ShoalError
from shoal.wire.codec import Message


class Faulty(ShoalError):
    """The runtime does what it must not; the message says what was due and what came."""

    code = "faulty"


class NotApplicable(ShoalError):
    """The message says what the runtime, or the model it is tried with, lacks."""

    code = "not_applicable"


def expect(holds: bool, otherwise: str) -> None:
    """Raises `Faulty` with `otherwise` where something does not hold."""
    if not holds:
        raise Faulty(otherwise)


def needs(there: bool, otherwise: str) -> None:
    """Raises `NotApplicable` with `otherwise` where something is not there."""
    if not there:
        raise NotApplicable(otherwise)


def shown(message: Message) -> str:
    """A message in words: its kind, and what it says that is short."""
    parts = [f"{name} {_value(getattr(message, name))}" for name in message.__struct_fields__]
    return f"'{message.__struct_config__.tag}' ({', '.join(parts)})"


def _value(value: object) -> str:
    if isinstance(value, str | int | float | None):
        return repr(value)
    return "…" if value else repr(value)
