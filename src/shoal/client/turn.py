"""What a call says of its turn among others: priority, class, user, as request headers.

Decides what cannot be sent; what it means is the gateway's.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shoal.errors import InvalidRequest


class Turn(msgspec.Struct, frozen=True):
    """Of one call; see `EncodeOptions` for each."""

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
