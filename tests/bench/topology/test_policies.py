import random
from collections import Counter

from shoal.bench.topology.policies import Name, PowerOfTwo, RoundRobin, policy


def test_round_robin_takes_turns_and_routers_begin_apart() -> None:
    first, second = RoundRobin(3, first=0), RoundRobin(3, first=1)
    assert [first.choose() for _ in range(4)] == [0, 1, 2, 0]
    assert [second.choose() for _ in range(4)] == [1, 2, 0, 1]


def test_power_of_two_takes_the_shorter_of_two() -> None:
    chooser = PowerOfTwo(2, random.Random(1))
    chooser.reported([5, 0])
    assert [chooser.choose() for _ in range(5)] == [1] * 5  # its own sends count
    chooser.reported([0, 9])
    assert chooser.choose() == 0


def test_power_of_two_never_picks_the_longest_of_many() -> None:
    chooser = PowerOfTwo(8, random.Random(1))
    picked: Counter[int] = Counter()
    for _ in range(400):
        chooser.reported([0, 1, 2, 3, 4, 5, 6, 1000])
        picked[chooser.choose()] += 1
    assert picked[7] == 0
    assert picked[0] > picked[3] > picked[6] > 0


def test_without_reports_power_of_two_spreads_its_own_sends() -> None:
    chooser = policy("power-of-two", 4, seed=2)
    picked = Counter(chooser.choose() for _ in range(400))
    assert max(picked.values()) - min(picked.values()) <= 4


def test_one_queue_is_always_the_one() -> None:
    names: list[Name] = ["round-robin", "power-of-two"]
    for name in names:
        chooser = policy(name, 1, seed=7)
        assert [chooser.choose() for _ in range(3)] == [0, 0, 0]
