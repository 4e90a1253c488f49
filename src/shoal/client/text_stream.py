"""A text as it is generated, read from its response: `TextStream` blocks, `AsyncTextStream` awaits.

Decides how long it may last and what a broken connection is; what its bytes say is `stream`'s.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpx

from shoal.client.closing import AsyncClosing, Closing
from shoal.client.http import Endpoint
from shoal.client.stream import Reader
from shoal.errors import DeadlineExceeded, Unavailable
from shoal.wire.objects import Generation


class _Text:
    """What came of a text until now; it must be whole by `deadline`, in seconds of `time.monotonic`."""

    def __init__(self, response: httpx.Response, endpoint: Endpoint, deadline: float) -> None:
        self._response = response
        self._endpoint = endpoint
        self._deadline = deadline
        self._reader = Reader()

    @property
    def generation(self) -> Generation:
        """The whole, once all pieces came. Raises `Unavailable` before, and where it broke off."""
        return self._reader.whole

    def _pieces(self, chunk: bytes) -> Iterator[str]:
        yield from self._reader.add(chunk)
        if time.monotonic() > self._deadline:
            raise DeadlineExceeded("the text did not come to its end in time")

    @contextmanager
    def _to_its_end(self) -> Iterator[None]:
        try:
            yield
        except httpx.RequestError as error:
            raise Unavailable(self._endpoint.lost(error).reason) from None
        _ = self.generation  # raises where it broke off


class TextStream(_Text, Closing):
    """The pieces of a text as they come. Iterate over it; close it, or leave its `with`, to end it early."""

    def __iter__(self) -> Iterator[str]:
        """Raises `ShoalError` where the text does not come to its end."""
        with self._to_its_end(), self:
            for chunk in self._response.iter_raw():
                yield from self._pieces(chunk)

    def close(self) -> None:
        """End it: what nobody reads is not generated."""
        self._response.close()


class AsyncTextStream(_Text, AsyncClosing):
    """As `TextStream`, with ``async for`` and ``async with``."""

    async def __aiter__(self) -> AsyncIterator[str]:
        """Raises `ShoalError` where the text does not come to its end."""
        with self._to_its_end():
            async with self:
                async for chunk in self._response.aiter_raw():
                    for piece in self._pieces(chunk):
                        yield piece

    async def aclose(self) -> None:
        """End it: what nobody reads is not generated."""
        await self._response.aclose()
