"""The same texts from a server that is asked and from the runtime before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.bench.failure import BenchFailed
from shoal.bench.generating.bare import bare
from shoal.bench.generating.streams import Asked, streams
from shoal.bench.runtime import alone
from shoal.wire.socket import Loaded
from tests.runtimes.sglang.running import MODEL, fake, folder_of, load_of
from tests.runtimes.sglang.server import VOCABULARY


async def test_a_server_and_the_runtime_before_it(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    asked = [Asked([5, 6, 7], 12), Asked([8, 9], 12), Asked([10], 4, after=6)]
    with fake(folder) as server:
        async with alone("sglang") as runtime, bare(server.url) as direct:
            await runtime.ask(load_of(folder, url=server.url), Loaded)
            through = await streams(runtime, MODEL, asked, 0)
            straight = await streams(direct, MODEL, asked, 0)
            assert [stream.ids for stream in straight] == [stream.ids for stream in through]
            assert [len(stream.ids) for stream in straight] == [12, 12, 4]
            with pytest.raises(BenchFailed, match="maximum context length"):
                await streams(direct, MODEL, [Asked([VOCABULARY - 100] * 500, 100)], 0)
