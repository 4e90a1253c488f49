"""Which handler a path and a method mean. Decides 404 and 405; must not know what handlers do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from shoal.errors import MethodNotAllowed, NotFound, nearest
from shoal.gateway.envelope import Envelope, native
from shoal.gateway.http import Request, Response

Handler = Callable[[Request, str], Awaitable[Response]]


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
        raise NotFound(f"there is nothing at {path[:200]}{nearest(path[:200], self._paths())}")

    def _paths(self) -> list[str]:
        return [route.path for route in self.routes]
