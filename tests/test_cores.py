import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from shoal.cores import YIELDS, usable, yield_cores


@pytest.mark.skipif(sys.platform != "linux", reason="a priority for each thread is Linux's")
def test_a_thread_yields_and_those_that_it_starts_and_no_other() -> None:
    seen: dict[str, int] = {}

    def note(name: str) -> None:
        seen[name] = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def work() -> None:
        yield_cores()
        note("own")
        child = threading.Thread(target=note, args=("child",))
        child.start()
        child.join()

    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    note("caller")
    after = min(before + YIELDS, 19)
    assert seen == {"own": after, "child": after, "caller": before}


@pytest.mark.skipif(sys.platform != "linux", reason="cores of one thread are Linux's")
def test_cores_are_those_that_a_thread_may_run_on() -> None:
    with ThreadPoolExecutor(1) as pool:
        one = min(os.sched_getaffinity(0))
        pool.submit(os.sched_setaffinity, 0, {one}).result()
        assert pool.submit(usable).result() == 1
    assert usable() == len(os.sched_getaffinity(0))
