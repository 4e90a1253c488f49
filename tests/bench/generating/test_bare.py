"""A server that is asked, and the runtime before it: the same texts, and as the benchmark measures them."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.bench.failure import BenchFailed
from shoal.bench.generating.bare import bare
from shoal.bench.generating.measure import Plan, measure, table
from shoal.bench.generating.streams import Asked, streams
from shoal.bench.runtime import alone
from shoal.wire.socket import Loaded
from tests.runtimes.sglang.running import MODEL, fake, folder_of, load_of, whole_folder_of
from tests.runtimes.sglang.server import VOCABULARY

CARD = """\
name: toy
source: {{dir: {folder}}}
family: llama
tasks: {{generate: {{}}}}
max_tokens: 400
profiles:
  default: {{runtime: sglang, sequences: 4, options: {{url: "{url}"}}}}
"""


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


def test_a_card_of_ones_own_says_where_the_server_is(tmp_path: Path) -> None:
    folder, cards = whole_folder_of(tmp_path), tmp_path / "cards"
    cards.mkdir()
    with fake(folder) as server:
        (cards / "toy.yaml").write_text(CARD.format(folder=folder, url=server.url))
        plan = Plan(
            kinds=("sglang",),
            model="toy",
            catalog=(str(cards),),
            bare=(server.url,),
            rounds=1,
            streams=2,
            new_tokens=4,
            long_tokens=32,
        )
        result = measure(plan, lambda _: None)
    through, straight = result.measured
    (ours,), (theirs,) = through.rounds, straight.rounds
    for kind in ("one", "many", "mixed"):
        of_each = zip(getattr(ours, kind), getattr(theirs, kind), strict=True)
        assert all(a.ids == b.ids and a.ids for a, b in of_each)
    assert "| sglang by | 1 stream | 2 streams | mixed |" in " ".join(table(result).split())
