from collections import Counter
from itertools import pairwise

import pytest

from shoal.bench.topology.traffic import Requests, Traffic


@pytest.mark.parametrize("kind", ["steady", "bursty"])
def test_the_rate_holds_and_the_seed_decides(kind: str) -> None:
    traffic = Traffic(5, kind)  # type: ignore[arg-type]
    moments = traffic.moments(200.0, 20.0)
    assert len(moments) == pytest.approx(4000, rel=0.2)
    assert moments == sorted(moments) == traffic.moments(200.0, 20.0)


def test_models_are_asked_by_zipfs_law() -> None:
    asked = Counter(model for _, model in Traffic(20).moments(500.0, 20.0))
    assert asked[0] / asked[9] == pytest.approx(10, rel=0.3)


def test_bursts_bring_many_requests_of_one_model_at_once() -> None:
    def repeats(traffic: Traffic) -> float:
        models = [model for _, model in traffic.moments(100.0, 60.0)]
        return sum(a == b for a, b in pairwise(models)) / len(models)

    assert repeats(Traffic(20, "bursty")) > 2 * repeats(Traffic(20))


def test_requests_name_their_model() -> None:
    requests = Requests(["m0", "m1"])
    arrivals = requests.arrivals([(0.0, 1), (0.5, 0)], [("h", 1)], 2.0)
    assert arrivals.due_s == [0.0, 0.5]
    asked = [arrivals.requests[which] for which in arrivals.which]
    assert b"/v1/encode/m1 " in asked[0] and b"/v1/encode/m0 " in asked[1]
    assert 20 < requests.tokens < 300
