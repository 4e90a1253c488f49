"""`shoal gateway` and `shoal worker`: one process each, as a cluster runs them.

Each loads its settings and hands over; the code of a role is imported only when it runs.
"""

from __future__ import annotations

from shoal.cli.context import Given
from shoal.cli.flags import takes
from shoal.settings import GatewaySettings, WorkerSettings


@takes(GatewaySettings)
def gateway(given: Given) -> None:
    """Answer HTTP and put the work on the queue.

    Needs a broker; `shoal serve` runs one. Run as many gateways as you like:

    shoal gateway --broker-url nats://10.0.0.5:4222 --host 0.0.0.0
    """
    from shoal.gateway.main import run

    run(given.load(GatewaySettings))


@takes(WorkerSettings)
def worker(given: Given) -> None:
    """Pull work from the queue and run it on this machine's devices.

    One a machine is right: it gives every device a lane of its own.

    shoal worker --broker-url nats://10.0.0.5:4222 --models all-MiniLM-L6-v2
    shoal worker --lanes cuda:0,cuda:1
    """
    from shoal.worker.main import run

    run(given.load(WorkerSettings))
