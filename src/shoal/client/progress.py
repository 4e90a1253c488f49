"""What reports the progress of a large input: nothing, the caller's function, or a bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress

from shoal.client.job import Report


@contextmanager
def reporting(progress: bool | Report, label: str) -> Iterator[Report]:
    """The function to call with (items answered, items in all); a bar goes to stderr."""
    if callable(progress):
        yield progress
    elif not progress:
        yield lambda done, total: None
    else:
        columns = (*Progress.get_default_columns(), MofNCompleteColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
