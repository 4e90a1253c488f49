from shoal.bench.overhead import Plan, measure, table


def test_a_short_run_counts_every_process() -> None:
    result = measure(Plan(seconds=0.4, rounds=1, connections=8), lambda _: None)
    assert [m.workload.name for m in result.measured] == [
        "1 item, json",
        "1 item, msgpack",
        "64 items, json",
        "64 items, msgpack",
    ]
    for measured in result.measured:
        (round_,) = measured.rounds
        assert measured.errors == 0
        assert round_.answered > 0
        assert round_.batch_items >= 1
        assert round_.cpu_us.keys() == {"gateway", "broker", "worker", "runtime", "load"}
        assert round_.cpu_us["gateway"] > 0 and round_.cpu_us["worker"] > 0
    assert len(table(result).splitlines()) == 2 + len(result.measured)
