"""Between exchanges and httpx: makes its requests, maps its errors.

The one module that knows httpx's request and error types; both shells use it.
"""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from shoal.client.protocol import Answered, Lost, Send
from shoal.errors import ConfigError

DEFAULT_URL = "http://127.0.0.1:8080"
#: A host that does not answer to SYN is not going to; the rest of the budget is for another try.
CONNECT_S = 5.0
TIMED_OUT = Lost("timed out", timed_out=True)


class Endpoint:
    """Where a gateway is, and the key to it. Raises `ConfigError` for a URL that cannot work."""

    def __init__(self, base_url: str, api_key: str | None) -> None:
        _check(base_url)
        self._base_url = base_url.rstrip("/")
        # Vectors do not compress: gzip would only cost time.
        self._headers = {"accept-encoding": "identity"}
        if api_key is not None:
            self._headers["authorization"] = f"Bearer {api_key}"

    def request(self, client: httpx.Client | httpx.AsyncClient, send: Send) -> httpx.Request:
        return client.build_request(
            send.request.method,
            self._base_url + send.request.path,
            content=send.request.body,
            headers=_encoded({**self._headers, **send.request.headers}),
            timeout=httpx.Timeout(send.timeout_s, connect=min(send.timeout_s, CONNECT_S)),
        )

    def lost(self, error: httpx.RequestError) -> Lost:
        """Why no answer came; a connect that takes too long is no spent budget."""
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            why = str(error) or f"no connection within {CONNECT_S:g} s"
            return Lost(f"cannot connect to {self._base_url} ({why}); is the gateway running?")
        if isinstance(error, httpx.TimeoutException):
            return TIMED_OUT
        return Lost(f"connection to {self._base_url} broke off: {error or type(error).__name__}")


def _encoded(headers: Mapping[str, str]) -> dict[bytes, bytes]:
    """In UTF-8: httpx by itself takes ASCII alone."""
    return {name.encode(): value.encode() for name, value in headers.items()}


def answered(response: httpx.Response, body: bytes) -> Answered:
    """The outcome of a response; httpx's header mapping ignores case."""
    return Answered(response.status_code, response.headers, body)


def _check(base_url: str) -> None:
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError) as error:
        raise ConfigError(f"base_url {base_url!r} is no URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(f"base_url {base_url!r} must look like {DEFAULT_URL}")
