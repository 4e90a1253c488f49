"""What a simulated world is made of: models, hardware, latencies, traffic. Values only."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from shoal.core.batcher import Budget
from shoal.core.models import ModelSpec

#: Bytes of text a token in simulated requests: English WordPiece, a little off the 4.0 that
#: gateways guess before anything is tokenized.
TEXT_BYTES_PER_TOKEN = 4.5


class Model(msgspec.Struct, frozen=True):
    """One model as it truly is.

    Attributes:
        share: of all requests.
        cost: true seconds of a batch: (base, per token, per token squared, per item).
        bytes, load_s: what a copy of it holds in a lane, and how long loading it takes.
    """

    name: str
    share: float
    cost: tuple[float, float, float, float]
    budget: Budget
    max_tokens: int = 512
    bytes: int = 0
    load_s: float = 0.2

    def batch_s(self, tokens: int, squared: int, items: int) -> float:
        """True seconds of a batch, without noise."""
        base_s, token_s, square_s, item_s = self.cost
        return base_s + token_s * tokens + square_s * squared + item_s * items

    def spec(self, error: float = 1.0) -> ModelSpec:
        """What the core is told of it: its card's seed is wrong by the factor `error`."""
        base_s, token_s, square_s, item_s = (w * error for w in self.cost)
        return ModelSpec(
            name=self.name,
            kind="torch",
            max_tokens=self.max_tokens,
            budget=self.budget,
            cost_seed=(base_s, token_s, square_s, item_s),
            bytes_estimate=self.bytes,
            load_s_estimate=self.load_s,
        )


class Device(msgspec.Struct, frozen=True):
    """A kind of device: what batches cost on it, and the latency that callers accept.

    `goal_s`: the knee is the highest load whose 99th percentile stays below this.
    """

    name: str
    cost: tuple[float, float, float, float]
    budget: Budget
    goal_s: float


#: A data-centre GPU with a small encoder: launching its kernels takes as long as 1,500 tokens do.
GPU = Device("gpu", (0.003, 2e-6, 0.0, 0.0), Budget(0.02, 8192, 256), 0.1)
#: A few CPU cores with the same: the cost of MiniLM's card for bfloat16.
CPU = Device("cpu", (0.002, 1.2e-4, 0.0, 0.0), Budget(0.1, 8192, 256), 0.5)
DEVICES = {device.name: device for device in (GPU, CPU)}


class Noise(msgspec.Struct, frozen=True):
    """How far truth is from prediction.

    Attributes:
        batch: standard deviation of the logarithm of a batch's seconds; 0.1 was measured on GPUs.
        seed: the same of each model's seed cost, which the cost model has to unlearn.
        stall_share, stall_s: this share of batches takes so much longer (a garbage collection, a
            neighbour on the machine).
    """

    batch: float = 0.1
    seed: float = 0.2
    stall_share: float = 2e-4
    stall_s: float = 0.05


class Latency(msgspec.Struct, frozen=True):
    """Times of everything but the device. A hop is one way between a process and the broker.

    Attributes:
        hop_s, hop_mean_s: least and mean seconds; through a real nats-server on one machine a hop
            takes 0.15 to 0.3 ms, in one data centre 0.1 ms more.
        socket_s: one way between worker and runtime.
        prepare_item_s, prepare_token_s: decoding and tokenizing, in one thread a worker.
    """

    hop_s: float = 0.0002
    hop_mean_s: float = 0.0003
    socket_s: float = 0.0001
    prepare_item_s: float = 2e-5
    prepare_token_s: float = 2e-7


class Traffic(msgspec.Struct, frozen=True):
    """Requests as they come.

    Attributes:
        tokens_median, tokens_sigma: lengths of items, lognormal.
        most_items: requests have 1 to this many items, Pareto(1.1) as request sizes are
            (mean 5.4 at 256); 1: all have one.
        burst: each model's rate is multiplied by this for `burst_s` at a time, a tenth of the
            time, and lower for the rest (an MMPP with two states); 1: Poisson.
    """

    tokens_median: float = 100.0
    tokens_sigma: float = 0.7
    most_items: int = 1
    burst: float = 1.0
    burst_s: float = 0.2

    @property
    def tokens_mean(self) -> float:
        """Mean tokens an item, before the cut at a model's longest."""
        return self.tokens_median * math.exp(self.tokens_sigma**2 / 2)

    @property
    def items_mean(self) -> float:
        return sum(n * p for n, p in enumerate(self.sizes(), start=1))

    def sizes(self) -> list[float]:
        """Probability of a request of 1, 2, … items."""
        weights = [n**-1.1 - (n + 1) ** -1.1 for n in range(1, self.most_items + 1)]
        return [w / sum(weights) for w in weights]


class Cluster(msgspec.Struct, frozen=True):
    """The machines.

    Attributes:
        lane_bytes: memory of one lane for models; None: all models are resident from the start.
        kills: (seconds, worker) at which a worker dies; it is back `restart_s` later.
    """

    workers: int
    lanes: int = 1
    gateways: int = 2
    lane_bytes: int | None = None
    eviction: Literal["gdsf", "lru"] = "gdsf"
    kills: tuple[tuple[float, int], ...] = ()
    restart_s: float = 2.0


class Scenario(msgspec.Struct, frozen=True):
    """A whole world but for how requests come to workers and how many there are."""

    name: str
    models: tuple[Model, ...]
    traffic: Traffic
    cluster: Cluster
    goal_s: float
    noise: Noise = Noise()
    latency: Latency = Latency()
    timeout_s: float = 60.0

    @property
    def capacity(self) -> float:
        """Requests a second that the devices would answer if every batch were full.

        Loads are shares of it. No policy can carry more for long; of a run that ends before its
        backlog is a goal long, a few per cent more may be answered in time.
        """
        items, tokens = self.traffic.items_mean, self.traffic.tokens_mean
        second = 0.0
        for model in self.models:
            base_s, token_s, _, item_s = model.cost
            budget = model.budget
            room = min(budget.items * tokens, budget.tokens, (budget.seconds - base_s) / token_s)
            per_token = base_s / room + token_s + item_s / tokens
            second += model.share * items * tokens * per_token
        return self.cluster.workers * self.cluster.lanes / second


def zipf(count: int, exponent: float = 1.0) -> list[float]:
    """Shares of `count` models, the k-th ∝ 1/k^exponent."""
    weights = [rank**-exponent for rank in range(1, count + 1)]
    return [w / sum(weights) for w in weights]
