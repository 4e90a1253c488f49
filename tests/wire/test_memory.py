from __future__ import annotations

from shoal.runtimes.process import rss_bytes
from shoal.wire.memory import unwritten


def test_memory_is_taken_only_by_what_is_written() -> None:
    before = rss_bytes()
    memory = unwritten(1 << 30)
    assert rss_bytes() - before < 1 << 26
    memory[: 1 << 26] = bytes(1 << 26)
    assert rss_bytes() - before >= 1 << 26
    assert (memory.nbytes, memory.format, memory.readonly) == (1 << 30, "B", False)
