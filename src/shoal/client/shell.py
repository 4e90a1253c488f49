"""What both clients are made of: the same arguments, and methods made of the calls that `Api` plans."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Generic, TypeVar, get_args, get_type_hints

import httpx

from shoal.client.api import Api, policies
from shoal.client.http import DEFAULT_URL, Endpoint
from shoal.client.items import DEFAULT_LIMITS, Limits
from shoal.client.protocol import OnRetry, Retry

H = TypeVar("H", httpx.Client, httpx.AsyncClient)
M = TypeVar("M", bound=Callable[..., Any])


class Shell(ABC, Generic[H]):
    """Where a gateway is, what may be asked of it, and the connections to it."""

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        api_key: str | None = None,
        *,
        timeout_s: float | None = None,
        retries: int = Retry().limit,
        limits: Limits = DEFAULT_LIMITS,
        http: H | None = None,
        on_retry: OnRetry | None = None,
    ) -> None:
        self._api = Api(*policies(timeout_s, retries, on_retry), limits)
        self._endpoint = Endpoint(base_url, api_key)
        self._own = http is None
        self._http: H = http or self._connections()

    @abstractmethod
    def _connections(self) -> H:
        """An httpx client of its own."""


def described(method: M, call: Callable[..., Any]) -> M:
    """`method` with the name, documentation and arguments of `call`; it gives what that plans."""
    update_wrapper(method, call)
    (given,) = get_args(get_type_hints(call)["return"])
    signature = inspect.signature(call).replace(return_annotation=given)
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method
