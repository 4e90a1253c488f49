"""How freed memory goes back, and when there was not enough of it."""

from __future__ import annotations

import gc

import torch

from shoal.runtimes.process import trim

_CPU_MESSAGES = ("can't allocate memory", "Cannot allocate memory", "std::bad_alloc")


def give_back(device: torch.device) -> None:
    """Return freed memory to the system, which would else keep it for this process."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    trim()


def device_bytes(device: torch.device) -> int:
    """All memory of a GPU; 0 for a CPU, whose memory is everybody's."""
    return torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else 0


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed; torch says so on CPU only in the message."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(said in str(error) for said in _CPU_MESSAGES)
    )
