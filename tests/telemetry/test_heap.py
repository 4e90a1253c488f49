import gc
from collections.abc import Iterator

import pytest

from shoal.telemetry.heap import keep_for_good


@pytest.fixture
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("thawed")
def test_the_collector_looks_at_nothing_that_is_there_and_at_all_that_comes() -> None:
    before: list[object] = []
    before.append(before)
    keep_for_good()
    after: list[object] = []
    after.append(after)
    looked_at = {id(thing) for thing in gc.get_objects()}
    assert id(before) not in looked_at
    assert id(after) in looked_at
