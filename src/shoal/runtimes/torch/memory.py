"""What memory the process and the device hold, and how freed memory goes back."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import resource
import sys
from pathlib import Path

import torch

_CPU_MESSAGES = ("can't allocate memory", "std::bad_alloc")
_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """The resident set of this process; on systems without /proc, its peak."""
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def give_back(device: torch.device) -> None:
    """Return freed memory to the system, which would else keep it for this process."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    with contextlib.suppress(OSError, AttributeError):  # glibc only
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed; torch says so on CPU only in the message."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(said in str(error) for said in _CPU_MESSAGES)
    )
