"""The HTTP API of an SGLang server, as far as it is used; foreign errors become ours here.

Routes of SGLang 0.5 (``entrypoints/http_server.py``); those that were renamed are asked by both names.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import msgspec

from shoal.errors import ComputeFailed, InvalidRequest, ShoalError, Unavailable
from shoal.runtimes.sglang.answers import Answer, read

#: A connection on this machine or the next comes at once.
_CONNECT_S = 10.0
#: `/health` lets one token be generated, and gives up after 20 s.
_HEALTH_S = 30.0
#: An adapter is read from disk, and goes when the texts that use it are over.
_ADAPTER_S = 120.0


class Gone(ComputeFailed):
    """Nobody listens at the server's address."""


class BrokeOff(ComputeFailed):
    """The connection ended in the middle of an answer."""


class Client:
    """One server. All methods belong to the loop that it is made for.

    They raise `Gone` where there is no connection, `BrokeOff` where one ends too early.
    """

    def __init__(self, url: str, key: str | None) -> None:
        self.url = url.rstrip("/")
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers={} if key is None else {"authorization": f"Bearer {key}"},
            # Texts may be silent while long prompts are computed; whether the server lives is watched.
            timeout=httpx.Timeout(_CONNECT_S, read=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            trust_env=False,  # a proxy of the environment is none for this
        )

    async def healthy(self) -> bool:
        """Whether it generates."""
        try:
            return (await self._get("/health", _HEALTH_S)).status_code == 200
        except httpx.TimeoutException:
            return False

    async def described(self) -> dict[str, Any]:
        """What it says of its model and of itself. Raises `ComputeFailed` for what cannot be read."""
        return await self._told("/model_info") | await self._told("/server_info")

    async def stream(self, body: dict[str, Any]) -> AsyncIterator[Answer]:
        """The answers of a text, as they come. Raises `InvalidRequest`, `ComputeFailed`, `Unavailable`."""
        with self._ours():
            request = self._http.build_request("POST", "/generate", json=body | {"stream": True})
            response = await self._http.send(request, stream=True)
            try:
                if response.status_code != 200:
                    raise _refused(response.status_code, await response.aread())
                left = b""
                async for data in response.aiter_bytes():
                    *events, left = (left + data).split(b"\n\n")
                    for event in events:
                        if (answer := read(event)) is None:
                            return
                        yield answer
            finally:
                await response.aclose()

    async def abort(self, rid: str) -> None:
        """End a text, if it is still there. What it says is of no use."""
        with contextlib.suppress(ShoalError):
            await self._post("/abort_request", {"rid": rid}, _CONNECT_S)

    async def load_adapter(self, name: str, path: str) -> None:
        """Raises `InvalidRequest` with the server's reason."""
        await self._adapter("/load_lora_adapter", {"lora_name": name, "lora_path": path})

    async def unload_adapter(self, name: str) -> None:
        """Raises `InvalidRequest` with the server's reason."""
        await self._adapter("/unload_lora_adapter", {"lora_name": name})

    async def close(self) -> None:
        """Drop what is open."""
        await self._http.aclose()

    async def _adapter(self, path: str, body: dict[str, str]) -> None:
        response = await self._post(path, body, _ADAPTER_S)
        told = _json(response.content)
        if response.status_code != 200 or not told.get("success", True):
            why = told.get("error_message") or _message(response.content)
            raise InvalidRequest(f"SGLang, adapter '{body['lora_name']}': {why}")

    async def _told(self, path: str) -> dict[str, Any]:
        response = await self._get(path, _HEALTH_S)
        if response.status_code == 404:  # its name in older versions
            path = f"/get{path.replace('/', '_')}"
            response = await self._get(path, _HEALTH_S)
        if response.status_code != 200 or not (told := _json(response.content)):
            raise ComputeFailed(
                f"{self.url}{path} answered {response.status_code}: {_message(response.content)}"
            )
        return told

    async def _get(self, path: str, timeout_s: float) -> httpx.Response:
        with self._ours():
            return await self._http.get(path, timeout=timeout_s)

    async def _post(self, path: str, body: dict[str, str], timeout_s: float) -> httpx.Response:
        with self._ours():
            try:
                return await self._http.post(path, json=body, timeout=timeout_s)
            except httpx.TimeoutException:
                raise ComputeFailed(f"{self.url}{path} did not answer in {timeout_s:g} s") from None

    @contextlib.contextmanager
    def _ours(self) -> Iterator[None]:
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Gone(f"nothing answers at {self.url}: {error or type(error).__name__}") from None
        except httpx.TimeoutException:
            raise
        except httpx.TransportError as error:
            raise BrokeOff(f"{self.url} broke off: {str(error) or type(error).__name__}") from None


def _refused(status: int, body: bytes) -> ShoalError:
    said = f"SGLang answered {status}: {_message(body)}"
    if status in (429, 503):
        return Unavailable(said)
    return InvalidRequest(said) if 400 <= status < 500 else ComputeFailed(said)


def _message(body: bytes) -> str:
    """What an error says in one of SGLang's two shapes, or as it came."""
    told = _json(body)
    error = told.get("error", told)
    message = error.get("message") if isinstance(error, dict) else error
    return str(message or body[:200].decode(errors="replace").strip() or "nothing more")


def _json(body: bytes) -> dict[str, Any]:
    try:
        told = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return told if isinstance(told, dict) else {}
