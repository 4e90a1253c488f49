"""`shoal status`: workers, lanes, resident models, queues and gateways, at this moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.cli.asking import BROKER, ask
from shoal.cli.context import Given
from shoal.cli.flags import takes
from shoal.cli.output import AsJson, print_json
from shoal.settings import CommonSettings

if TYPE_CHECKING:
    from rich.table import Table

    from shoal.cli.snapshot import Depth, Snapshot, Worker


@takes(CommonSettings, only=BROKER)
def status(
    given: Given,
    as_json: AsJson = False,
) -> None:
    """Show workers, lanes, resident models, queue depth and gateways.

    Finds the `shoal serve` of this machine by itself; else say where the broker is:

    shoal status --broker-url nats://10.0.0.5:4222
    """
    from shoal.cli.snapshot import take

    snapshot = ask(given, "shoal-status", take)
    if as_json:
        print_json(snapshot)
    else:
        _show(snapshot)


def _show(snapshot: Snapshot) -> None:
    from rich.console import Console

    console = Console()
    if snapshot.workers:
        console.print(_workers_table(snapshot))
    else:
        console.print("Workers: none. Requests wait until their deadline; start a `shoal worker`.")
    if any(worker.models for worker in snapshot.workers):
        console.print(_models_table(snapshot))
    console.print(_queues_table(snapshot) if _queued(snapshot) else "Queue: empty")
    if snapshot.gateways:
        console.print(_gateways_table(snapshot))
    else:
        console.print("Gateways: none. Nobody can ask; start a `shoal gateway`.")


def _workers_table(snapshot: Snapshot) -> Table:
    from rich.table import Table

    table = Table("worker", "pool", "lanes", "state", "units held")
    table.title = f"Workers: {len(snapshot.workers)}"
    for worker in snapshot.workers:
        about = (worker.id, worker.pool, _lanes(worker), _state(worker))
        table.add_row(*about, str(worker.units_held))
    return table


def _models_table(snapshot: Snapshot) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Models, by worker")
    for title in ("worker", "model", "state", "size"):
        table.add_column(title, overflow="fold")
    for worker in snapshot.workers:
        for model in worker.models:
            state = f"{model.state}: {model.reason}" if model.reason else model.state
            state += ", pinned" if model.pinned else ""
            size = _size(model.bytes) if model.bytes else ""
            table.add_row(worker.id, model.name, escape(state), size)
    return table


def _lanes(worker: Worker) -> str:
    """Each lane with what its models hold, of how much they may."""
    return "\n".join(_lane(lane, worker) for lane in worker.lanes)


def _lane(lane: str, worker: Worker) -> str:
    memory = worker.memory.get(lane)
    if memory is None:
        return lane
    budget = f" of {_size(memory.budget_bytes)}" if memory.budget_bytes else ""
    return f"{lane}: {_size(memory.held_bytes)}{budget}"


def _size(bytes_: int) -> str:
    return f"{bytes_ / 1e9:.2f} GB" if bytes_ >= 1e9 else f"{bytes_ / 1e6:.0f} MB"


def _state(worker: Worker) -> str:
    if worker.draining:
        return "draining"
    return "ready" if worker.ready else "not ready"


def _queued(snapshot: Snapshot) -> list[Depth]:
    """The queues that hold something: each model that was ever asked has two."""
    return [depth for depth in snapshot.queues if depth.waiting or depth.held]


def _queues_table(snapshot: Snapshot) -> Table:
    from rich.table import Table

    table = Table("model", "pool", "class", "waiting", "held by workers", title="Queue, in units")
    for depth in _queued(snapshot):
        table.add_row(depth.model, depth.pool, depth.klass, str(depth.waiting), str(depth.held))
    return table


def _gateways_table(snapshot: Snapshot) -> Table:
    from rich.table import Table

    table = Table("gateway", "pool", "seconds of work outstanding")
    table.title = f"Gateways: {len(snapshot.gateways)}"
    for gateway in snapshot.gateways:
        waiting = ", ".join(
            f"{model} {s:.2f}" for model, s in sorted(gateway.outstanding_s.items())
        )
        table.add_row(gateway.id, gateway.pool, waiting or "none")
    return table
