import os
import sys
import threading

import pytest

from shoal.yielding import YIELDS, yield_cores


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
