"""Who may call: the static API key, and browsers of other origins (CORS).

Decides only from headers; must not know what a call asks for.
"""

from __future__ import annotations

import hmac

from shoal.errors import Unauthorized
from shoal.gateway.http import Header, Request, Response
from shoal.settings import GatewaySettings

#: Seconds for which a browser may keep the answer to a preflight; Chrome takes no more.
PREFLIGHT_AGE_S = b"7200"
_EXPOSED = b"x-request-id, server-timing, retry-after"


class Access:
    """The rules of one gateway."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._key = settings.api_key.encode() if settings.api_key is not None else None
        self._origins = frozenset(origin.encode() for origin in settings.cors_origins)

    def check_key(self, request: Request) -> None:
        """Raises `Unauthorized` unless the request carries the key, if there is one."""
        if self._key is None:
            return
        scheme, _, given = request.headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer":
            raise Unauthorized("an API key is needed: send 'Authorization: Bearer <key>'")
        if not hmac.compare_digest(given.strip(), self._key):
            raise Unauthorized("the API key is not known here")

    def cors_headers(self, request: Request) -> list[Header]:
        """What lets the calling origin's scripts read the response; empty for others."""
        origin = request.headers.get(b"origin")
        if origin is None or not self._origins:
            return []
        if b"*" in self._origins:
            return [
                (b"access-control-allow-origin", b"*"),
                (b"access-control-expose-headers", _EXPOSED),
            ]
        if origin not in self._origins:
            return [(b"vary", b"Origin")]
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", _EXPOSED),
            (b"vary", b"Origin"),
        ]

    def is_preflight(self, request: Request) -> bool:
        """Whether this is a CORS preflight: https://fetch.spec.whatwg.org/#cors-preflight-fetch."""
        return request.method == "OPTIONS" and b"access-control-request-method" in request.headers

    def preflight(self, request: Request, allow: str) -> Response:
        """The answer to a preflight of a route that takes the methods in `allow`."""
        asked = request.headers.get(b"access-control-request-headers", b"*")
        headers = (
            (b"access-control-allow-methods", allow.encode()),
            (b"access-control-allow-headers", asked),
            (b"access-control-max-age", PREFLIGHT_AGE_S),
        )
        return Response(b"", 204, headers=headers)
