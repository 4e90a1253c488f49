"""A JetStream key-value bucket whose keys end by themselves, and are created by one of many.

A bucket is a stream ``KV_<bucket>`` with the subject ``$KV.<bucket>.<key>`` for each key, as in ADR-8
of the NATS project; the time to live of one key is that of its message (ADR-43, nats-server 2.11).
A key is deleted by taking its message off the stream: no marker stays that a create must know.
"""

from __future__ import annotations

from typing import Any

from shoal.broker.connection import Connection
from shoal.broker.streams import ensure_stream

#: Bytes of all keys of a bucket; a claim has about a hundred.
_MAX_BYTES = 16 << 20


class Bucket:
    """One bucket; `ensure` comes first, and again after the broker lost its store."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name

    async def ensure(self) -> None:
        """Create the bucket if it is not there. Raises as `ensure_streams`."""
        await ensure_stream(self._connection, self._config())

    def _config(self) -> dict[str, Any]:
        return {
            "name": f"KV_{self._name}",
            "description": "Shoal: keys that end by themselves",
            "subjects": [f"$KV.{self._name}.>"],
            "retention": "limits",
            "storage": "file",
            "discard": "new",
            "max_msgs_per_subject": 1,
            "max_bytes": _MAX_BYTES,
            "allow_msg_ttl": True,
            "num_replicas": 1,
        }

    async def create(self, key: str, value: bytes, ttl_s: float) -> int | None:
        """Put a key that is not there; its revision, or None if it is.

        `ttl_s` is rounded up to whole seconds. Raises `Unavailable`.
        """
        return await self._connection.put(self._subject(key), value, ttl_s, expected=0)

    async def update(self, key: str, value: bytes, ttl_s: float, revision: int) -> int | None:
        """Put a key again, for `ttl_s` from now; None if it is gone or another's. As `create`."""
        return await self._connection.put(self._subject(key), value, ttl_s, expected=revision)

    async def delete(self, revision: int) -> None:
        """Take the key of this revision away, if it is still there. Raises `Unavailable`."""
        request = {"seq": revision, "no_erase": True}
        await self._connection.api(f"STREAM.MSG.DELETE.KV_{self._name}", request, dict)

    def _subject(self, key: str) -> str:
        return f"$KV.{self._name}.{key}"
