"""What a call says of its turn among others: priority, class, user, as request headers.

Decides what cannot be sent; what it means is the gateway's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import msgspec

from shoal.client.options import taken
from shoal.errors import InvalidRequest


class TurnOptions(TypedDict, total=False):
    """What any call may say by keyword.

    Attributes:
        priority: from -10 to 10; higher goes first among the requests of one user.
        bulk: run in what interactive work leaves; give the client a `timeout_s` that allows for it.
        user: who of your own users asks; users take turns.
    """

    priority: int
    bulk: bool
    user: str


class Turn(msgspec.Struct, frozen=True):
    """Of one call; see `TurnOptions` for each."""

    priority: int = 0
    bulk: bool = False
    user: str = ""

    def headers(self) -> Mapping[str, str]:
        """Headers of every request of the call. Raises `InvalidRequest`."""
        headers: dict[str, str] = {}
        if self.priority:
            headers["x-priority"] = f"{self.priority:d}"
        if self.bulk:
            headers["x-class"] = "bulk"
        if self.user:
            if not self.user.isprintable() or self.user != self.user.strip():
                raise InvalidRequest(
                    f"user is {self.user[:80]!r}: it may have no control characters, and no space "
                    f"at its ends",
                    param="user",
                )
            headers["x-user"] = self.user
        return headers


def headers_of(options: dict[str, Any]) -> Mapping[str, str]:
    """The headers of a call, whose turn is taken out of its `options`. Raises `InvalidRequest`."""
    return Turn(**taken(options, Turn)).headers()
