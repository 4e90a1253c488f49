"""Models that a worker will never load: when it says so, and when it no longer does."""

from shoal.core import events as ev
from shoal.core.batcher import Budget
from shoal.core.config import WorkerConfig
from shoal.core.demand import FORGET_S
from shoal.core.models import ModelSpec
from shoal.core.strangers import NO_CARD_S, NOT_LOADED_S
from shoal.core.worker import WorkerCore

M = ModelSpec("m", "fake", 512, Budget(0.1, 4096, 64), (0.0, 1e-3, 0.0, 0.0))


def worker(*, on_demand: bool = True) -> WorkerCore:
    return WorkerCore(WorkerConfig(["cpu"], [M], on_demand=on_demand, cooldown_s=60.0))


def told(core: WorkerCore, now: float, model: str, *, wanted: bool = True) -> str | None:
    """What is said of `model` after gateways told what waits for it."""
    core.handle(ev.DemandSeen("g", {model: 1.0} if wanted else {}), now)
    said = core.strangers(now).get(model)
    return None if said is None else said.reason


def test_a_model_without_a_card_is_told_once_its_work_has_waited() -> None:
    core = worker()
    assert told(core, 0.0, "n") is None
    assert told(core, NO_CARD_S - 1, "n") is None
    assert "has no card of that name" in (told(core, NO_CARD_S, "n") or "")
    assert told(core, NO_CARD_S, "m") is None


def test_it_is_told_for_a_cooldown_and_then_looked_at_anew() -> None:
    core = worker()
    told(core, 0.0, "n")
    assert told(core, NO_CARD_S, "n")
    assert told(core, NO_CARD_S + 59, "n", wanted=False)
    assert told(core, NO_CARD_S + 60, "n") is None
    assert told(core, 2 * NO_CARD_S + 60, "n")


def test_it_is_not_told_while_another_worker_has_it_nor_soon_after() -> None:
    core = worker()
    told(core, 0.0, "n")
    assert told(core, NO_CARD_S, "n")
    core.handle(ev.PeerSeen("w2", {"n": ev.PeerModel("loading", 0)}), NO_CARD_S)
    assert told(core, NO_CARD_S, "n") is None
    core.handle(ev.PeerLost("w2"), NO_CARD_S + 1)
    assert told(core, NO_CARD_S + 2, "n") is None
    assert told(core, 2 * NO_CARD_S + 2, "n")


def test_work_that_waits_now_and_then_is_not_work_that_waits() -> None:
    core = worker()
    told(core, 0.0, "n")
    told(core, FORGET_S, "n", wanted=False)
    assert told(core, NO_CARD_S, "n") is None


def test_a_worker_that_loads_nothing_on_demand_tells_so_later() -> None:
    core = worker(on_demand=False)
    assert told(core, 0.0, "m") is None
    assert told(core, NOT_LOADED_S - 1, "m") is None
    assert "loads nothing on demand" in (told(core, NOT_LOADED_S, "m") or "")
