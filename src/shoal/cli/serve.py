"""`shoal serve`: one machine's whole deployment, in the foreground.

Finds the models' files first, then starts what a cluster runs, says when it is ready, and stops
in good order.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.context import Given, serving_on, state_dir
from shoal.cli.flags import takes
from shoal.errors import ConfigError
from shoal.settings import GatewaySettings, ServeSettings, WorkerSettings

if TYPE_CHECKING:
    from shoal.cli.stack import Plan, Stack

Models = Annotated[
    list[str] | None,
    typer.Argument(
        help="Catalog names, folders, or org/name of the Hugging Face hub. None: the whole catalog, "
        "each model loaded when asked for.",
        show_default=False,
    ),
]


Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Say which profile and runtime each model would run with here, and why; start nothing.",
    ),
]


@takes(ServeSettings, GatewaySettings, WorkerSettings)
def serve(given: Given, models: Models = None, explain: Explain = False) -> None:
    """Serve models on this machine: a broker, gateways and workers, all started here.

    shoal serve all-MiniLM-L6-v2
    shoal serve ./my-model                       a folder, without a card
    shoal serve --gateways 2 --lanes cpu,cpu     the whole catalog, on two lanes
    shoal serve --broker-url nats://host:4222    with a broker that runs elsewhere
    shoal serve --explain all-MiniLM-L6-v2       what it would run in here, and why

    Ctrl-C stops it in good order; a second one at once.
    """
    from shoal.telemetry import log

    given = given.naming(models)
    settings = given.load(ServeSettings)
    log.configure(settings.log_level, settings.log_format)
    if explain:
        from shoal.cli.explain import explain as tell

        tell(given.load(WorkerSettings))
        return
    gateway = given.load(GatewaySettings)
    with reserved_port(gateway.host, gateway.port) as port, _home(gateway.port) as home:
        # Beside no event loop: that would wait for a download that was interrupted.
        plan = _plan(given, settings, port, home)
        asyncio.run(_serve(plan))


def _plan(given: Given, settings: ServeSettings, port: int, home: Path) -> Plan:
    """What is to run; fetches the models. Raises `ConfigError`, and what `prepare` raises."""
    from shoal.broker.payloads import Payloads
    from shoal.cli.prepare import prepare
    from shoal.cli.stack import Plan
    from shoal.worker.devices import lanes_of, require

    worker = given.load(WorkerSettings)
    require(lanes_of(worker))  # a device that is none, or not here, is told before anything starts
    Payloads(settings.payload_url)  # and so is a store that is none
    models = prepare(worker, home / "cards")
    return Plan(
        given=given,
        serve=settings,
        gateway=given.load(GatewaySettings),
        worker=worker,
        store_dir=settings.store_dir or str(home / "broker"),
        port=port,
        models=models.names,
        catalog=[*settings.catalog, *models.cards],
    )


async def _serve(plan: Plan) -> None:
    from shoal.cli.banner import announce
    from shoal.cli.stack import Stack
    from shoal.telemetry import log

    logger = log.get(__name__)
    stack = Stack(plan, lambda what: logger.event("process_died", level="warning", what=what))
    _stop_on_signals(stack)
    try:
        await stack.start()
        await stack.run(beside=announce(plan, stack.broker_url))
    finally:
        await stack.close()


def _stop_on_signals(stack: Stack) -> None:
    """The first SIGINT or SIGTERM stops in good order, the second at once."""
    heard = 0

    def on_signal() -> None:
        nonlocal heard
        heard += 1
        if heard == 1:
            print("\nstopping; once more to stop at once", file=sys.stderr, flush=True)
            stack.stop()
        else:
            stack.kill()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)


@contextlib.contextmanager
def reserved_port(host: str, port: int) -> Iterator[int]:
    """Hold a port for as long as gateways may come and go on it; 0 picks a free one.

    A socket that is bound and does not listen gets no connections.

    Raises:
        ConfigError: it is taken, or this machine has no such address.
    """
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as alone:  # fails where anyone listens, sharing or not
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind(address)
        with contextlib.ExitStack() as failing:
            holder = failing.enter_context(socket.socket(family, kind))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            holder.bind(address)
            failing.pop_all()
    except OSError as error:
        running = serving_on(port)
        by = "" if running is None else f" by the `shoal serve` with pid {running.pid}"
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}{by}; choose another --port "
            "(0 picks a free one) or --host"
        ) from None
    with holder:
        yield int(holder.getsockname()[1])


@contextlib.contextmanager
def _home(port: int) -> Iterator[Path]:
    """Where this deployment keeps streams and cards: by its port, which nobody else can have.

    With port 0 nobody could find it again: it is removed at the end.
    """
    if port:
        yield state_dir() / "serve" / str(port)
    else:
        with tempfile.TemporaryDirectory(prefix="shoal-") as folder:
            yield Path(folder)
