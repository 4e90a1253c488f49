"""How many threads the parallel regions of one thread of this process get."""

from __future__ import annotations

import contextlib
import ctypes

import torch


def compute_alone() -> None:
    """Whatever the calling thread computes, it computes by itself; other threads keep theirs.

    `torch.set_num_threads` counts for the whole process, OpenMP's own call for its caller alone. A
    second team of threads beside that of running batches would have them wait for each other.
    """
    torch.get_num_threads()  # a thread's first call takes on the process's number
    with contextlib.suppress(OSError, AttributeError):  # no OpenMP in this build of torch
        ctypes.CDLL(None).omp_set_num_threads(1)
