"""The base of all events and instructions."""

import msgspec


class Value(msgspec.Struct, frozen=True):
    """Made once, compared by content."""
