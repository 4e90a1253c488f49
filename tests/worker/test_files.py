"""Files that come late or never, and what libraries raise of them."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.errors import ModelLoadFailed, SourceError
from shoal.worker.files import FETCHES, Fetches, guarded
from shoal.worker.service import Worker

from .conftest import StartWorker
from .scripted import until

Hang = Callable[[], int]


@pytest.fixture
def hang() -> Iterator[Hang]:
    """A download that hangs until the test is over, and counts how often it was begun."""
    over = threading.Event()

    def download() -> int:
        download.begun += 1  # type: ignore[attr-defined]
        over.wait(60.0)
        return 7

    download.begun = 0  # type: ignore[attr-defined]
    yield download
    over.set()


async def late(fetches: Fetches, model: str, hang: Hang) -> None:
    with pytest.raises(TimeoutError):
        await fetches.run(model, hang, 0.01)


async def test_what_hangs_takes_no_turn_from_those_that_come_later(hang: Hang) -> None:
    fetches = Fetches()
    await asyncio.gather(*(late(fetches, f"m{n}", hang) for n in range(2 * FETCHES)))
    assert await fetches.run("other", lambda: 5, 30.0) == 5


async def test_a_model_has_one_thread_however_often_it_is_asked_for(hang: Hang) -> None:
    fetches = Fetches()
    for _ in range(3):
        await late(fetches, "m", hang)
    await until(lambda: hang.begun > 0)  # type: ignore[attr-defined]
    assert hang.begun == 1  # type: ignore[attr-defined]


async def test_a_few_are_fetched_at_a_time(hang: Hang) -> None:
    fetches = Fetches()
    asked = [asyncio.create_task(fetches.run(f"m{n}", hang, 60.0)) for n in range(2 * FETCHES)]
    await until(lambda: hang.begun == FETCHES)  # type: ignore[attr-defined]
    await asyncio.sleep(0.05)
    assert hang.begun == FETCHES  # type: ignore[attr-defined]
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


async def test_one_that_failed_is_begun_anew() -> None:
    fetches, tries = Fetches(), iter([1, 2])

    def fail() -> int:
        raise SourceError(f"try {next(tries)}")

    for number in (1, 2):
        with pytest.raises(SourceError, match=f"try {number}"):
            await fetches.run("m", fail, 30.0)


def test_what_a_library_raises_is_the_models_error() -> None:
    with pytest.raises(ModelLoadFailed, match="KeyError: 'layers'"):
        guarded(dict[str, int]().__getitem__, "layers")


async def test_a_link_to_a_file_that_was_cleaned_away_ends_no_worker(
    start_worker: StartWorker, tmp_path: Path
) -> None:
    """The hub's cache has links, and others clean it."""
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "gone")
    worker: Worker = await start_worker()
    assert worker.core.models["fake"].state == "resident"
