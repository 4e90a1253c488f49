"""Where models are resident, as gateways hear it: the pulses of all workers, one period old."""

from __future__ import annotations

from shoal.core.admission_events import Rate
from shoal.sim.scenario import Model
from shoal.sim.units import rate_of
from shoal.sim.worker import SimWorker


class Residents:
    """Lanes that hold each model."""

    def __init__(self, models: tuple[Model, ...]) -> None:
        self._models = {model.name: model for model in models}
        self._rates = {model.name: rate_of(model, 0) for model in models}

    def rate(self, model: str) -> Rate:
        """How fast this model is answered, as the latest pulses say."""
        return self._rates[model]

    def heard(self, workers: list[SimWorker]) -> list[str]:
        """Take in the pulses of all workers; returns the models whose lanes changed."""
        lanes = dict.fromkeys(self._models, 0)
        for worker in workers:
            for lane in worker.core.lanes.values():
                for name in lane.resident:
                    lanes[name] += 1
        changed = [name for name, count in lanes.items() if self._rates[name].lanes != count]
        for name in changed:
            self._rates[name] = rate_of(self._models[name], lanes[name])
        return changed
