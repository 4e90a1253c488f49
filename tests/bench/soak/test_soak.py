from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from shoal.bench import report
from shoal.bench.soak import measure as soak
from shoal.bench.soak import plot


def result(series: list[soak.Series], **changed: object) -> soak.Result:
    whole = soak.Result(
        report.this_machine([]), soak.Plan(), 10, 10, {}, 5.0, 9.0, series, restarted=[]
    )
    return msgspec.structs.replace(whole, **changed)


def series(name: str, mb_per_h: float) -> soak.Series:
    """A jagged line from ten minutes before counting begins to an hour after."""
    times = [float(second) for second in range(-600, 3600, 10)]
    mb = [100 + mb_per_h * t / 3600 + (t // 10 % 3) for t in times]
    return soak.Series(name, times, [round(m * 1e6) for m in mb])


def test_growth_is_a_problem_above_the_limit() -> None:
    flat, growing = series("gateway 1", 0.2), series("worker 2", 40.0)
    assert result([flat]).problems == []
    (problem,) = result([flat, growing]).problems
    assert problem.startswith("worker 2 grows by 40.0 ± ")
    assert growing.quarters_mb() == pytest.approx([106, 116, 126, 136], abs=0.2)


def test_what_a_warm_up_takes_is_no_growth() -> None:
    steep = series("runtime", 0.0)
    held = [
        b + (-t * 10**6 if t < 0 else 0) for t, b in zip(steep.times, steep.rss_bytes, strict=True)
    ]
    assert result([msgspec.structs.replace(steep, rss_bytes=held)]).problems == []


def test_failed_requests_and_processes_that_died_are_problems() -> None:
    problems = result([], errors={"503": 2}, restarted=["runtime"]).problems
    assert problems == ["503: 2 requests", "runtime was not there all the time"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_short_run_watches_every_process(tmp_path: Path) -> None:
    plan = soak.Plan(minutes=0.25, warm_minutes=0.1, limit_mb=1e6)
    seen = soak.measure(plan, lambda _: None)
    assert seen.problems == []
    assert [one.name for one in seen.series] == [
        *("gateway 1", "gateway 2", "broker"),
        *("worker 1", "worker 2", "runtime 1", "runtime 2"),
    ]
    assert all(min(one.rss_bytes) > 5e6 and one.times[0] < 0 for one in seen.series)
    assert "runtime 2" in soak.table(seen)
    plot.write(tmp_path / "soak.png", seen)
    assert (tmp_path / "soak.png").stat().st_size > 1000
