"""Who may call, and as whom: API keys, and browsers of other origins (CORS).

Decides only from headers; must not know what a call asks for. A key has a name: that is the tenant
of all calls that carry it.
"""

from __future__ import annotations

import hashlib
import re
import secrets

from shoal.errors import ConfigError, Unauthorized
from shoal.gateway.headers import Header
from shoal.gateway.request import Request
from shoal.gateway.response import Response
from shoal.settings import GatewaySettings

#: Seconds for which a browser may keep the answer to a preflight; Chrome takes no more.
PREFLIGHT_AGE_S = b"7200"
_EXPOSED = b"x-request-id, server-timing, retry-after"

#: Names stand in metrics, pulses and units; a slash would end them there.
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Access:
    """The rules of one gateway."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._names = _names_of(settings, salt := secrets.token_bytes(16))
        self._salt = salt
        self._origins = frozenset(origin.encode() for origin in settings.cors_origins)

    def key_name(self, request: Request) -> str:
        """The name of the key that the request carries; empty where none is needed.

        Raises:
            Unauthorized: there are keys, and it carries none of them.
        """
        if not self._names:
            return ""
        scheme, _, given = request.headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not given.strip():
            raise Unauthorized("an API key is needed: send 'Authorization: Bearer <key>'")
        name = self._names.get(_digest(given.strip(), self._salt))
        if name is None:
            raise Unauthorized(
                "the API key is not known here: ask whoever runs this gateway for one"
            )
        return name

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


def _names_of(settings: GatewaySettings, salt: bytes) -> dict[bytes, str]:
    """Digest of a key -> its name; that of `api_key` is empty. Raises `ConfigError`."""
    names: dict[bytes, str] = {}
    if settings.api_key is not None:
        if not _can_be_sent(settings.api_key):
            raise ConfigError(
                "setting 'api_key' is empty, or begins or ends with a space: nobody could send "
                "it; leave it unset to need no key"
            )
        names[_digest(settings.api_key.encode(), salt)] = ""
    for number, entry in enumerate(settings.api_keys, 1):
        name, colon, key = entry.partition(":")
        if not (colon and _can_be_sent(key) and _NAME.fullmatch(name)):
            raise ConfigError(
                f"setting 'api_keys': entry {number} is not 'name:key': a name has up to 64 letters, "
                f"digits and '._-', and no key is empty or begins or ends with a space"
            )
        if names.setdefault(_digest(key.encode(), salt), name) != name:
            raise ConfigError(f"setting 'api_keys': entry {number} ('{name}') has another's key")
    return names


def _can_be_sent(key: str) -> bool:
    return bool(key) and key == key.strip()


def _digest(key: bytes, salt: bytes) -> bytes:
    """What a key is looked up by.

    How long that takes tells nothing of the keys: who does not know this process's `salt` cannot
    choose what is compared.
    """
    return hashlib.blake2b(key, key=salt, digest_size=16).digest()
