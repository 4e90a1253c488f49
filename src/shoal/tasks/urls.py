"""URLs that hold what they lead to: those of no other kind are ever followed. Pure."""

from __future__ import annotations

import base64

from shoal.errors import InvalidItem


def data_of(url: str, named: str) -> bytes:
    """What a ``data:`` URL holds (RFC 2397). Raises `InvalidItem` for any other; `named`: as it is called."""
    head, comma, data = url.partition(",")
    if not head.startswith("data:") or not head.endswith(";base64") or not comma:
        raise InvalidItem(
            f"{named} must be data:<type>;base64,<data>: nothing is fetched from elsewhere; "
            "send the bytes themselves"
        )
    return from_base64(data, named)


def from_base64(data: str, named: str) -> bytes:
    """Raises `InvalidItem` for what is none."""
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        raise InvalidItem(f"{named} holds invalid base64") from None
