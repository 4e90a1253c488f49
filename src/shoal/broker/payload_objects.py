"""Payloads in an object store: S3 and what speaks like it, Google Cloud Storage, Azure.

Credentials, region and endpoint come from the variables that each vendor's own tools read. The
library is Rust's object_store with an event loop of its own: no call blocks ours.
https://developmentseed.org/obstore/
"""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import BaseError
from obstore.store import from_url

from shoal.errors import ConfigError
from shoal.wire.codec import Buffer

if TYPE_CHECKING:
    from obstore.store import RetryConfig

T = TypeVar("T")

#: The caller's deadline is 30 s in all. How to connect is left to the vendor's variables: options
#: given here would replace them.
_RETRY: RetryConfig = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}
#: What says who we are, by the URL's scheme.
_VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, the file of a service account",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}


class ObjectPayloads:
    """See `payloads.Backend`."""

    def __init__(self, url: str) -> None:
        """Raises `ConfigError` if the URL or the variables are not enough to open the store."""
        try:
            self._store = from_url(url, retry_config=_RETRY)
        except (BaseError, ValueError) as error:
            raise ConfigError(
                f"payload_url '{url}' cannot be opened: {_reason(error)}; "
                f"set {_VARIABLES[url.partition(':')[0]]}"
            ) from None

    async def put(self, key: str, data: Buffer) -> None:
        # Several parts could be left in the bucket half sent, where no listing shows them.
        await _mapped(obstore.put_async(self._store, key, data, use_multipart=False))

    async def get(self, key: str) -> Buffer:
        found = await _mapped(obstore.get_async(self._store, key))
        return memoryview(await _mapped(found.bytes_async()))

    async def delete(self, key: str) -> None:
        await _mapped(obstore.delete_async(self._store, key))

    async def written(self) -> dict[str, float]:
        pages = obstore.list(self._store).__aiter__()
        found: dict[str, float] = {}
        while (page := await _mapped(anext(pages, None))) is not None:
            found |= {o["path"]: o["last_modified"].timestamp() for o in page}
        return found


async def _mapped(call: Awaitable[T]) -> T:
    """What `call` gives; the library's errors become `OSError`s with one line of text."""
    try:
        return await call
    except BaseError as error:
        raise OSError(_reason(error)) from None


def _reason(error: Exception) -> str:
    """Its first line: what follows is a dump of Rust structures."""
    return str(error).partition("\n")[0]
