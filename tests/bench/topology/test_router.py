from shoal.bench.topology.router import Routed
from shoal.wire import subjects

POOLS = ["worker-1", "worker-10", "worker 2"]


def test_units_of_a_model_go_to_the_pools_in_turn() -> None:
    routed = Routed("round-robin", 1, POOLS, "push")
    sent = [routed.subject(subjects.work_subject("work", "push", "org/m.1")) for _ in range(4)]
    wanted = [POOLS[1], POOLS[2], POOLS[0], POOLS[1]]
    assert sent == [subjects.work_subject("work", pool, "org/m.1") for pool in wanted]


def test_reported_lengths_are_those_of_whole_pools() -> None:
    routed = Routed("power-of-two", 0, POOLS, "push")
    held = {
        subjects.work_subject("work", "worker-1", "a"): 40,
        subjects.work_subject("work", "worker-10", "a"): 3,
        subjects.work_subject("work", "worker-10", "b"): 4,
        subjects.work_subject("work", "elsewhere", "a"): 100,
    }
    routed.reported(held)
    unit = subjects.work_subject("work", "push", "m")
    chosen = [routed.subject(unit).split(".")[2] for _ in range(30)]
    assert subjects.token("worker-1") not in chosen
    assert {subjects.token("worker-10"), subjects.token("worker 2")} == set(chosen)
