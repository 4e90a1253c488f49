"""The payload store: where items too large for the queue lie while their unit is in flight.

Decides which store a URL means, how long each call may take, and what a store's failures are called
here. It must not know units, models or who calls. A payload is there whole or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from shoal.errors import ConfigError, PayloadMissing, Unavailable
from shoal.spelling import nearest
from shoal.wire.codec import Buffer

T = TypeVar("T")

#: A store of another machine moves 32 MB, the largest item, in a second or two; more is a stall.
TRANSFER_S = 30.0
#: A sweep may list many thousand payloads, some hundred a page.
SWEEP_S = 120.0
#: Payloads deleted at a time.
DELETES = 16

OBJECT_SCHEMES = ("s3", "gs", "az")


class Backend(Protocol):
    """One kind of store. `FileNotFoundError` for what is not there, `OSError` for all else."""

    async def put(self, key: str, data: Buffer) -> None:
        """Keep `data` under `key`, whole or not at all."""
        ...

    async def get(self, key: str) -> Buffer: ...

    async def delete(self, key: str) -> None: ...

    async def written(self) -> dict[str, float]:
        """Key -> when it was last written, by the store's own clock, broken uploads included."""
        ...


class Payloads:
    """The store that `url` names.

    Every call raises `Unavailable` if the store refuses, fails or is too slow, and `ConfigError`
    if no store is set.
    """

    def __init__(self, url: str | None) -> None:
        """Blocking. Raises `ConfigError` for a URL that is none, or that lacks what it needs.

        An object store is opened here, which asks no network. A folder is made by the first call:
        most deployments need it late or never, and it may yet be mounted.
        """
        self._url = url
        self._backend: Backend | None = None
        if url is not None:
            _check(url)
            if not url.startswith("file:"):
                self._backend = _open_object(url)

    @property
    def configured(self) -> bool:
        """Whether there is a store."""
        return self._url is not None

    async def put(self, key: str, data: Buffer) -> None:
        """Keep `data` under `key`."""
        try:
            await self._call("take a payload", TRANSFER_S, lambda store: store.put(key, data))
        except PayloadMissing:
            raise Unavailable(
                f"the payload store {self._url} is not there: make its bucket or folder"
            ) from None

    async def get(self, key: str) -> Buffer:
        """What is kept under `key`. Raises `PayloadMissing` if nothing is."""
        return await self._call("give a payload", TRANSFER_S, lambda store: store.get(key))

    async def delete(self, keys: Sequence[str]) -> None:
        """Let go of these; those that are not there are no error."""
        for start in range(0, len(keys), DELETES):
            await asyncio.gather(*map(self._delete, keys[start : start + DELETES]))

    async def _delete(self, key: str) -> None:
        with contextlib.suppress(PayloadMissing):
            await self._call("delete a payload", TRANSFER_S, lambda store: store.delete(key))

    async def sweep(self, age_s: float) -> int:
        """Delete what is older than `age_s`; returns how many there were.

        By the store's clock, as a mark written now tells it: this machine's own may be wrong.
        """
        mark = f"sweep-{secrets.token_hex(8)}"
        await self.put(mark, b"")
        written = await self._call("list", SWEEP_S, lambda store: store.written())
        old = [key for key, at in written.items() if at < written.get(mark, 0.0) - age_s]
        await self.delete([*old, mark])
        return len(old)

    async def _call(self, what: str, within_s: float, call: Callable[[Backend], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(within_s):
                return await call(await self._opened())
        except FileNotFoundError:
            raise PayloadMissing("this item is not in the payload store") from None
        except TimeoutError:
            why = f"no answer within {within_s:g} s"
        except OSError as error:
            why = error.strerror or str(error)
        raise Unavailable(f"the payload store {self._url} does not {what}: {why}")

    async def _opened(self) -> Backend:
        if self._backend is None:
            self._backend = await asyncio.to_thread(_open_folder, self._url)
        return self._backend


def _check(url: str) -> None:
    parts = urlsplit(url)
    known = ("file", *OBJECT_SCHEMES)
    if parts.scheme not in known:
        raise ConfigError(
            f"payload_url '{url}' must begin with one of {', '.join(f'{k}://' for k in known)}"
            f"{nearest(parts.scheme, known)}"
        )
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise ConfigError(f"payload_url '{url}' needs an absolute path: file:///dir")
    if parts.scheme != "file" and not parts.netloc:
        raise ConfigError(f"payload_url '{url}' names no bucket: {parts.scheme}://bucket/prefix")
    if parts.query or parts.fragment:
        raise ConfigError(
            f"payload_url '{url}' has more than a bucket and a prefix: give the rest in the "
            "variables of the store's vendor"
        )


def _open_folder(url: str | None) -> Backend:
    """Blocking. Raises `ConfigError`, or `OSError` for a folder that cannot be made."""
    if url is None:
        raise ConfigError(
            "payload_url is not set: name a store that all gateways and workers share, such as "
            "file:///shared/dir or s3://bucket/prefix"
        )
    from shoal.broker.payload_files import FilePayloads

    return FilePayloads(Path(unquote(urlsplit(url).path)))


def _open_object(url: str) -> Backend:
    from shoal.broker.payload_objects import ObjectPayloads

    return ObjectPayloads(url)
