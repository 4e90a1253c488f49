"""Which handler a path and a method mean. Decides 404 and 405; must not know what handlers do."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from shoal.errors import MethodNotAllowed, NotFound
from shoal.gateway.envelope import Envelope, native
from shoal.gateway.request import Request
from shoal.gateway.response import EventStream, Response
from shoal.spelling import closest

#: Two paths are alike by what comes after it: `/v1/` alone would make any two of them near.
_VERSION = re.compile(r"^/+(v[0-9]+/+)*")
#: Least share of letters: `chat/completions` is no `moderations`, `audio/transcription` is a slip.
_NEAR = 0.7

Handler = Callable[[Request, str], Awaitable[Response | EventStream]]


class Route(msgspec.Struct, frozen=True):
    """A path and its handlers by method.

    Attributes:
        path: as in the docs; one that ends in ``{name}`` matches any rest, slashes included,
            which the handlers get as their second argument.
        open: needs no API key.
    """

    path: str
    handlers: Mapping[str, Handler]
    envelope: Envelope = native
    open: bool = False

    @property
    def prefix(self) -> str | None:
        """What comes before ``{name}``; None for a path without one."""
        return self.path.partition("{")[0] if self.path.endswith("}") else None

    def handler(self, method: str) -> Handler:
        """Raises `MethodNotAllowed`; `allow` is the header that goes with it."""
        handler = self.handlers.get("GET" if method == "HEAD" else method)
        if handler is None:
            raise MethodNotAllowed(f"{method} is not allowed on {self.path}: use {self.allow}")
        return handler

    @property
    def allow(self) -> str:
        return ", ".join([*self.handlers, *(["HEAD"] if "GET" in self.handlers else [])])


class Router:
    """All routes of a gateway."""

    def __init__(self, routes: list[Route]) -> None:
        self.routes = routes
        self._exact = {route.path: route for route in routes if route.prefix is None}
        self._prefixed = [(route.prefix, route) for route in routes if route.prefix is not None]

    def find(self, path: str) -> tuple[Route, str]:
        """The route of a decoded path and the rest it matched. Raises `NotFound`."""
        route = self._exact.get(path)
        if route is not None:
            return route, ""
        for prefix, candidate in self._prefixed:
            if path.startswith(prefix) and len(path) > len(prefix):
                return candidate, path[len(prefix) :]
        raise NotFound(f"there is nothing at {path[:200]}{self._instead(path)}")

    def _instead(self, path: str) -> str:
        """The route that was most likely meant, or all that there are."""
        spoken: dict[str, str] = {}
        for route in self.routes:
            spoken.setdefault(_spoken(route.path), route.path)
        asked = _spoken(path)
        parents = {s: p for s, p in spoken.items() if p.endswith("}")}
        near = closest(asked, spoken, _NEAR) or closest(asked.partition("/")[0], parents, _NEAR)
        if near is not None:
            return f" (did you mean '{spoken[near]}'?)"
        return f"; there is: {', '.join(route.path for route in self.routes)}"


def _spoken(path: str) -> str:
    """What is peculiar to a path: without versions, and without the name that it ends in."""
    return _VERSION.sub("", path).partition("{")[0].rstrip("/")
