"""Files that come as they are: an image or sound in a body of its own, or in a form."""

from __future__ import annotations

import asyncio

from shoal.wire.codec import Buffer
from shoal.wire.memory import unwritten

#: Copied in one go, some 0.2 ms.
_STEP_BYTES = 1 << 20


async def media_item(data: Buffer) -> memoryview:
    """A file as an item of a MessagePack unit: ``bin 32``, a copy made piece by piece.

    https://github.com/msgpack/msgpack/blob/master/spec.md#bin-format-family
    """
    size = len(data)
    view, whole = memoryview(data), unwritten(size + 5)
    whole[:5] = b"\xc6" + size.to_bytes(4, "big")
    for start in range(0, size, _STEP_BYTES):
        piece = view[start : start + _STEP_BYTES]
        whole[5 + start : 5 + start + len(piece)] = piece
        await asyncio.sleep(0)
    return whole
