"""ASGI's own types, and what this server adds to them.

https://asgi.readthedocs.io/en/latest/specs/main.html
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

#: The ASGI extension in which the server gives the `connection` itself, an `unread.Connection`.
CONNECTION = "shoal.connection"
