from shoal.bench.peers import LEAST_COSINE, Plan, Workload, measure, table
from shoal.bench.texts import short_length

TINY = Workload("three short texts a request", 4, 3, 2, short_length)


def test_a_tiny_run_finds_equal_vectors_on_every_side() -> None:
    result = measure(Plan(rounds=2), lambda _: None, [TINY])
    sides = [measured.side for measured in result.measured]
    assert sides[2:] == ["Shoal", "Shoal, OpenAI route", "Shoal, float32"]
    for measured in result.measured:
        for round_ in measured.rounds:
            assert round_.errors == 0
            assert round_.texts_per_s > 0
            assert round_.cosine >= LEAST_COSINE
    assert all(f"| {side} " in table(result) for side in sides)
