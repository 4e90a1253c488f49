"""Shoal serves a large fleet of small models.

`shoal.Client` and `shoal.AsyncClient` talk to a gateway; they load on first use, so that the
server's processes start without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.client import AsyncClient, Client

__version__ = "0.1.0"
__all__ = ["AsyncClient", "Client", "__version__"]


def __getattr__(name: str) -> Any:
    if name not in ("AsyncClient", "Client"):
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    from shoal import client

    return getattr(client, name)
