"""A picture of when each token came: texts that go on while a long prompt is taken in among them."""

from __future__ import annotations

from pathlib import Path

from shoal.bench.generating.measure import Result
from shoal.bench.pictures import panels


def write(path: Path, result: Result) -> None:
    """One panel a side, one line of marks a stream, of its last round."""
    joined = [side for side in result.measured if side.rounds[-1].beside]
    with panels(path, len(joined)) as axes:
        for panel, side in zip(axes, joined, strict=True):
            for number, stream in enumerate(side.rounds[-1].beside):
                panel.plot(stream.tokens_s, [number] * len(stream.tokens_s), "|")
                panel.plot([stream.began_s], [number], "k>")
            panel.set(title=f"{side.name}: the last one has the long prompt", ylabel="stream")
        axes[-1].set(xlabel="seconds; ▸ asked, | a token")
