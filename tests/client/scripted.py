"""A gateway on a real socket that answers as a script says, else as a gateway should.

The vector of the text ``"17"``, or of the token ids ``[17, …]``, is 17 in every value.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Self

import msgspec
import numpy as np
import uvicorn

from tests.client.waiting import until

DIM = 4
MSGPACK = "application/msgpack"
Asgi = MutableMapping[str, Any]


class Seen(msgspec.Struct, frozen=True):
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: Any


class Response(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    headers: dict[str, str] = {}


#: Makes the response to a request; None breaks the connection off in the middle of one.
Step = Callable[[Seen], Awaitable[Response | None]]


class ScriptedGateway:
    def __init__(self) -> None:
        config = uvicorn.Config(
            self._app,
            port=0,
            lifespan="off",
            ws="none",
            log_config=None,
            loop="asyncio",
            interface="asgi3",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._clear()

    def reset(self) -> None:
        """Begin anew, once what earlier callers gave up has come: it must not take a step."""
        with socket.create_connection(self._address) as last:
            last.shutdown(socket.SHUT_WR)
            last.recv(1)  # connections are accepted in order: none is before this one any more
        state = self._server.server_state
        until(lambda: not state.connections and not state.tasks)
        self._clear()

    def _clear(self) -> None:
        self.script: deque[Step] = deque()
        self.seen: list[Seen] = []
        self.at_once = self.most_at_once = 0

    @property
    def url(self) -> str:
        host, port = self._address
        return f"http://{host}:{port}"

    @property
    def _address(self) -> tuple[str, int]:
        host, port = self._server.servers[0].sockets[0].getsockname()
        return host, port

    def __enter__(self) -> Self:
        self._thread.start()
        until(lambda: self._server.started)
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(10)

    async def _app(
        self,
        scope: Asgi,
        receive: Callable[[], Awaitable[Asgi]],
        send: Callable[[Asgi], Awaitable[None]],
    ) -> None:
        seen = await _read(scope, receive)
        self.seen.append(seen)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        step = self.script.popleft() if self.script else answer
        try:
            await _write(await step(seen), send)
        finally:
            self.at_once -= 1


async def _read(scope: Asgi, receive: Callable[[], Awaitable[Asgi]]) -> Seen:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    return Seen(scope["path"], headers, msgspec.msgpack.decode(body) if body else None)


async def _write(response: Response | None, send: Callable[[Asgi], Awaitable[None]]) -> None:
    whole = response or Response(200, b"x" * 100, {"content-type": MSGPACK})
    headers = {"content-length": str(len(whole.body)), **whole.headers}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": whole.status, "headers": raw})
    if response is None:
        await send({"type": "http.response.body", "body": b"x" * 50, "more_body": True})
        return  # uvicorn closes the connection of an app that returns too early
    await send({"type": "http.response.body", "body": whole.body})


async def answer(seen: Seen) -> Response:
    """As its task; a score is the item's number, an extraction its text, and what follows it ``!``."""
    items = [_ANSWERS[seen.path.split("/")[2]](item, seen.body) for item in seen.body["items"]]
    return packed({"model": seen.path, "items": items, "usage": {"tokens": 2 * len(items)}})


def _encoded(item: Any, body: Any) -> dict[str, Any]:
    params = body["params"]
    shape: dict[str, Any] = {"tokens": 2, "truncated": False}
    for name in params.get("outputs", ["dense"]):
        shape |= _OUTPUTS[name](item, params)
    return shape


def _dense(item: Any, params: Any) -> dict[str, Any]:
    dtype, dim = params["dtype"], params.get("dimensions", DIM)
    if dtype == "binary":
        packed_bits = {"dtype": "binary", "shape": [1], "data": bytes([_value(item)])}
        return {"dense": packed_bits}
    shape = vector(item, dim, dtype)
    if dtype in ("int8", "uint8"):
        shape["dense"]["scale"] = 0.5
    if dtype == "uint8":
        shape["dense"]["zero_point"] = 1.0
    return shape


def _tensor(array: Any) -> dict[str, Any]:
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": array.tobytes()}


def _sparse(item: Any, params: Any) -> dict[str, Any]:
    terms = {"indices": np.array([_value(item)], "<i4"), "values": np.array([0.5], "<f4")}
    return {"sparse": {name: _tensor(array) for name, array in terms.items()}}


def _multivector(item: Any, params: Any) -> dict[str, Any]:
    return {"multivector": _tensor(np.full((2, DIM), _value(item), "<f4"))}


_OUTPUTS = {"dense": _dense, "sparse": _sparse, "multivector": _multivector}


def _scored(item: Any, body: Any) -> dict[str, Any]:
    return {"score": float(item) / 100, "tokens": 2, "truncated": False}


def _extracted(item: Any, body: Any) -> dict[str, Any]:
    entity = {"text": str(item), "label": "N", "score": 0.5, "start": 0, "end": 1}
    return {"entities": [entity], "tokens": 2, "truncated": True}


def _generated(item: Any, body: Any) -> dict[str, Any]:
    return generated(f"{item}!")


def generated(text: str) -> dict[str, Any]:
    """Of a prompt of two tokens one of three."""
    counts = {"prompt_tokens": 2, "new_tokens": 3, "tokens": 2, "truncated": False}
    return {"text": text, "finish": "stop", **counts}


_ANSWERS = {
    "encode": _encoded,
    "score": _scored,
    "extract": _extracted,
    "generate": _generated,
}


def _value(item: Any) -> int:
    return item[0] if isinstance(item, list) else int(item)


def vector(item: str | list[int], dim: int = DIM, dtype: str = "float32") -> dict[str, Any]:
    data = np.full(dim, _value(item), dtype).tobytes()
    return {
        "dense": {"dtype": dtype, "shape": [dim], "data": data},
        "tokens": 2,
        "truncated": False,
    }


def item_error(code: str, message: str, retryable: bool = False) -> dict[str, Any]:
    error = {"code": code, "message": message, "retryable": retryable, "param": None}
    return {"error": error}


def packed(body: Any, status: int = 200, **headers: str) -> Response:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, msgspec.msgpack.encode(body), {"content-type": MSGPACK, **names})


def says(response: Response | None) -> Step:
    """A step that ignores the request."""

    async def step(seen: Seen) -> Response | None:
        return response

    return step


def refuses(
    status: int,
    code: str,
    message: str,
    *,
    retryable: bool = False,
    param: str | None = None,
    **headers: str,
) -> Step:
    error = {"code": code, "message": message, "retryable": retryable, "param": param}
    return says(packed({"error": error}, status, **headers))
