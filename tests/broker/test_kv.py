"""Keys that one of many creates, and that end by themselves."""

import asyncio

import pytest

from shoal.broker.kv import Bucket
from shoal.errors import Unavailable

from .harness import Connect


async def made(connect: Connect) -> Bucket:
    bucket = Bucket(await connect(), "test")
    await bucket.ensure()
    return bucket


async def test_of_many_that_create_a_key_one_succeeds(connect: Connect) -> None:
    buckets = [await made(connect) for _ in range(4)]
    revisions = await asyncio.gather(
        *(b.create("k", b"v", 60.0) for b in buckets for _ in range(5))
    )
    assert sum(revision is not None for revision in revisions) == 1
    assert await buckets[0].create("other", b"v", 60.0) is not None


async def test_a_deleted_key_is_free_at_once(connect: Connect) -> None:
    bucket = await made(connect)
    for _ in range(3):
        revision = await bucket.create("k", b"v", 60.0)
        assert revision is not None
        await bucket.delete(revision)
        await bucket.delete(revision)  # is gone, and that is no error


async def test_a_key_ends_by_itself(connect: Connect) -> None:
    bucket = await made(connect)
    assert await bucket.create("k", b"v", 1.0) is not None
    taken: list[int | None] = []

    async def free() -> bool:
        taken.append(await bucket.create("k", b"v", 60.0))
        return taken[-1] is not None

    assert not await free()
    async with asyncio.timeout(30):
        while not await free():
            await asyncio.sleep(0.05)


async def test_only_the_newest_revision_is_renewed(connect: Connect) -> None:
    bucket = await made(connect)
    first = await bucket.create("k", b"v", 60.0)
    assert first is not None
    second = await bucket.update("k", b"v", 60.0, first)
    assert second is not None
    assert await bucket.update("k", b"v", 60.0, first) is None
    await bucket.delete(first)  # is not the key any more
    assert await bucket.create("k", b"v", 60.0) is None


async def test_a_renewed_key_outlives_its_first_time(connect: Connect) -> None:
    bucket = await made(connect)
    first = await bucket.create("k", b"v", 1.0)
    assert first is not None
    assert await bucket.update("k", b"v", 60.0, first) is not None
    gone = await bucket.create("first", b"v", 1.0)
    assert gone is not None
    async with asyncio.timeout(30):  # what was put after it, for as long, has ended
        while await bucket.create("first", b"v", 60.0) is None:
            await asyncio.sleep(0.05)
    assert await bucket.create("k", b"v", 60.0) is None


async def test_without_its_stream_a_bucket_says_so(connect: Connect) -> None:
    bucket = Bucket(await connect(), "nobody-made-this")
    with pytest.raises(Unavailable):
        await bucket.create("k", b"v", 60.0)
