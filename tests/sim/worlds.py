"""Small worlds that tests share."""

import msgspec

from shoal.core.batcher import Budget
from shoal.sim.scenario import (
    GPU,
    Cluster,
    Device,
    Latency,
    Model,
    Noise,
    Scenario,
    Traffic,
    zipf,
)

QUIET = Noise(batch=0.0, seed=0.0, stall_share=0.0)


def scenario(
    models: int = 5,
    workers: int = 3,
    device: Device = GPU,
    traffic: Traffic | None = None,
    noise: Noise | None = None,
) -> Scenario:
    return Scenario(
        name="test",
        models=tuple(
            Model(f"m{number}", share, device.cost, device.budget)
            for number, share in enumerate(zipf(models))
        ),
        traffic=traffic or Traffic(),
        cluster=Cluster(workers),
        goal_s=device.goal_s,
        noise=noise or Noise(),
    )


def single_server(service_s: float, *, sigma: float) -> Scenario:
    """One worker that computes one request after the other: an M/G/1 queue."""
    world = scenario(1, 1, noise=Noise(batch=sigma, seed=0.0, stall_share=0.0))
    model = Model("m0", 1.0, (service_s, 0.0, 0.0, 0.0), Budget(1.0, 8192, 1))
    return msgspec.structs.replace(
        world,
        models=(model,),
        goal_s=60.0,
        latency=Latency(1e-6, 2e-6, 1e-6, 0.0, 0.0),
        timeout_s=600.0,
    )
