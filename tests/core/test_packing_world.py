"""Seeded pools: budgets hold, pinned models stay, loads are few, and everything asked for is served."""

import random
from functools import cache

import msgspec
import pytest

from shoal.core.claims import TTL_S
from shoal.core.eviction import PATIENCE_S, TURN_LOADS, Policy
from shoal.core.placement import RETRY_S

from .packing_runtimes import Kind
from .packing_world import MB, Pool

#: Bytes of a lane: three hold about half of the thirty models.
ROOM = 1300 * MB
SECONDS = 150.0


def zipf(rng: random.Random, count: int, seconds: float, rate: float) -> list[tuple[float, int]]:
    """Requests as (time, model), Poisson in time and Zipf over models."""
    weights = [1 / (rank + 1) for rank in range(count)]
    out, at = [], 0.0
    while (at := at + rng.expovariate(rate)) < seconds:
        out.append((at, rng.choices(range(count), weights)[0]))
    return out


def models(rng: random.Random, count: int, *, sure: bool = True) -> list[Kind]:
    """Sizes of 50 to 400 MB, loads of 0.2 to 4 s; unless `sure`, guesses are off by a third."""
    out = []
    for number in range(count):
        size = int(rng.uniform(50, 400)) * MB
        guess = size if sure else int(size * rng.uniform(0.67, 1.33))
        out.append(Kind(f"m{number}", size, 0.2 + 1e-8 * size * rng.uniform(0.0, 1.0), guess))
    return out


def ideal_loads(kinds: list[Kind], requests: list[tuple[float, int]], room: int) -> int:
    """Loads of one memory of all lanes that knows the future (Belady): the furthest next use goes."""
    next_use: dict[int, list[float]] = {}
    for at, model in requests:
        next_use.setdefault(model, []).append(at)
    resident: set[int] = set()
    loads = 0
    for _, model in requests:
        next_use[model].pop(0)
        if model in resident:
            continue
        loads += 1
        resident.add(model)
        while sum(kinds[m].bytes for m in resident) > room:
            resident.remove(
                max(resident - {model}, key=lambda m: next_use[m][0] if next_use[m] else 1e9)
            )
    return loads


@cache
def served(seed: int, *, sure: bool, eviction: Policy = "gdsf") -> Pool:
    rng = random.Random(seed)
    kinds = models(rng, 30, sure=sure)
    pool = Pool(kinds, 3, ROOM, seed=seed, pinned=("m0",), eviction=eviction)
    for at, number in zipf(rng, 30, SECONDS, 8.0):
        pool.request(2.0 + at, f"m{number}")
    pool.run_until(SECONDS + 40.0)
    return pool


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sure", [True, False])
def test_thirty_models_on_three_workers_that_hold_half_of_them(seed: int, sure: bool) -> None:
    """The world checks the budgets and the pinned model at every step."""
    pool = served(seed, sure=sure)
    assert not pool.failed
    assert not pool.waiting
    assert all("m0" in pool.held(worker) for worker in pool.cores)
    longest_load_s = 1.2 * max(kind.load_s for kind in pool.kinds.values())
    assert max(wait for _, wait in pool.waits) < PATIENCE_S + 2 * longest_load_s


@pytest.mark.parametrize("seed", [1, 2])
def test_loads_are_few_beside_those_of_one_who_knows_the_future(seed: int) -> None:
    rng = random.Random(seed)
    kinds = models(rng, 30)
    requests = zipf(rng, 30, SECONDS, 8.0)
    worth, recency = (served(seed, sure=True, eviction=policy) for policy in ("gdsf", "lru"))
    others = [(at, number) for at, number in requests if number != 0]  # it is on every lane
    ideal = ideal_loads(kinds, others, 3 * (ROOM - kinds[0].bytes))
    assert len(worth.loads) <= 2.0 * ideal
    assert load_seconds(worth) < load_seconds(recency)
    assert mean_wait_s(worth) < mean_wait_s(recency)


def load_seconds(pool: Pool) -> float:
    return sum(load.seconds for load in pool.loads)


def mean_wait_s(pool: Pool) -> float:
    return sum(wait for _, wait in pool.waits) / len(pool.waits)


def steady(pool: Pool, model: str, start: float, end: float, rate: float) -> None:
    for number in range(int((end - start) * rate)):
        pool.request(start + number / rate, model)


def test_two_models_that_do_not_fit_together_take_turns_worth_their_loads() -> None:
    pool = Pool([Kind("a", 600 * MB, 1.0), Kind("b", 600 * MB, 1.0)], 1, 1000 * MB)
    for model in ("a", "b"):
        steady(pool, model, 2.0, 202.0, rate=20.0)
    pool.run_until(240.0)
    assert not pool.waiting
    assert 10 <= len(pool.loads) <= 200 / (TURN_LOADS * 2.0) + 2
    assert max(wait for _, wait in pool.waits) < 1.5 * TURN_LOADS * 2.0 + 2.0


def test_a_model_asked_for_now_and_then_does_not_throw_out_one_in_use() -> None:
    """Of two that do not fit together the rare one waits for its turn, and gives the place back."""
    pool = Pool([Kind("a", 600 * MB, 1.0), Kind("b", 600 * MB, 1.0)], 1, 1000 * MB)
    steady(pool, "a", 2.0, 202.0, rate=50.0)
    for at in range(20, 200, 20):
        pool.request(float(at), "b")
    pool.run_until(240.0)
    assert not pool.waiting
    assert len(pool.loads) <= 1 + 2 * 9


def test_a_crowd_that_asks_for_a_cold_model_causes_one_load_and_more_work_a_second() -> None:
    pool = Pool([Kind("a", 100 * MB, 1.0)], 3, 1000 * MB)
    for _ in range(200):
        pool.request(3.0, "a")
    pool.run_until(10.0)
    assert len(pool.waits) == 200
    assert len(pool.loads) == 1
    steady(pool, "a", 10.0, 20.0, rate=1500.0)  # a lane does 750 a second
    pool.run_until(60.0)
    assert not pool.waiting
    assert len({load.worker for load in pool.loads}) >= 2
    assert len(pool.loads) <= 3


def test_copies_that_a_card_asks_for_are_kept_without_demand_and_never_all_let_go() -> None:
    kinds = [Kind("kept", 300 * MB, 1.0, min_replicas=2)]
    kinds += [Kind(f"m{number}", 300 * MB, 0.5) for number in range(9)]
    pool = Pool(kinds, 3, 700 * MB)
    pool.run_until(10.0)
    assert pool.runtimes.copies("kept") == 2
    for at, number in zipf(random.Random(5), 9, 120.0, 10.0):
        pool.request(10.0 + at, f"m{number}")
    while pool.now < 150.0:
        pool.run_until(pool.now + 0.5)
        assert pool.runtimes.copies("kept") >= 2
    assert not pool.waiting


def test_the_claim_of_a_worker_that_died_ends_and_another_loads() -> None:
    pool = Pool([Kind("a", 100 * MB, 30.0)], 2, 1000 * MB)
    pool.request(2.0, "a")
    pool.run_until(5.0)
    (first,) = pool.loads
    pool.kill(first.worker)
    pool.run_until(60.0)
    assert [load.worker != first.worker for load in pool.loads] == [False, True]
    assert pool.loads[1].at < 5.0 + TTL_S + 2 * RETRY_S
    assert not pool.waiting


def test_without_a_broker_for_claims_loads_wait_and_go_on_once_it_is_back() -> None:
    pool = Pool([Kind("a", 100 * MB, 1.0)], 2, 1000 * MB)
    pool.broker_up = False
    pool.request(2.0, "a")
    pool.run_until(20.0)
    assert pool.loads == []
    pool.broker_up = True
    pool.run_until(25.0)
    assert len(pool.loads) == 1
    assert not pool.waiting


def test_the_same_seed_gives_the_same_history() -> None:
    first, second = (served.__wrapped__(0, sure=False) for _ in range(2))
    assert first.loads == second.loads
    assert first.evictions == second.evictions


def broken(workers: int, *, on: int | None = None, pinned: bool = False) -> Pool:
    """A model whose files are broken on the first workers, or on all; somebody always waits for it."""
    names = tuple(f"w{number}" for number in range(workers))
    kind = Kind("m", 100 * MB, 0.2, broken_on=names[:on])
    pool = Pool([kind], workers, ROOM, pinned=("m",) if pinned else ())
    for second in range(10):
        pool.request(float(second), "m")
    return pool


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_a_broken_model_is_tried_about_once_a_cooldown_by_all_workers_together(
    workers: int,
) -> None:
    """Cooldowns begin at 0, 60, 180, 420 and 900 s; the first failure is confirmed by another."""
    pool = broken(workers)
    pool.run_until(900.0)
    tries = [load.at for load in pool.loads]
    rounds = [0, 60, 180, 420]
    assert len(rounds) <= len(tries) <= len(rounds) + 1 + (workers > 1)
    assert all(min(abs(at - begun) for begun in rounds) < 40.0 for at in tries)
    reasons = {core.models["m"].reason for core in pool.cores.values()}
    assert reasons == {"broken"}, "gateways refuse what all workers say cannot be loaded"


def test_a_broken_model_that_is_pinned_is_tried_seldom_too() -> None:
    pool = broken(6, pinned=True)
    pool.run_until(900.0)
    assert len(pool.loads) <= 6 + 2 * 4, "each tries at its start"


@pytest.mark.parametrize("pinned", [False, True])
def test_a_model_that_was_mended_is_found_by_all(pinned: bool) -> None:
    pool = broken(4, pinned=pinned)
    pool.run_until(100.0)
    pool.kinds["m"] = msgspec.structs.replace(pool.kinds["m"], broken_on=())
    pool.run_until(250.0)
    assert not pool.waiting
    assert sum("m" in held for held in map(pool.held, pool.cores)) == (4 if pinned else 1)


def test_one_machine_s_fault_is_not_the_model_s() -> None:
    pool = broken(4, on=1)
    pool.run_until(30.0)
    assert not pool.waiting
    assert max(wait for _, wait in pool.waits) < 10.0


def test_machines_that_failed_let_others_try_first() -> None:
    """Two make it look like the model's fault; the third may be tried next, but none of them twice."""
    pool = broken(6, on=3)
    pool.run_until(250.0)
    assert not pool.waiting
    assert len(pool.loads) <= 4
    assert len({load.worker for load in pool.loads}) == len(pool.loads)
