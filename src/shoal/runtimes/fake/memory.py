"""Memory that the fake runtime really holds, and a device that has only so much of it.

A model's bytes are one anonymous mapping, every page of it written to: it counts in the resident
set, and unlike what `malloc` gives out it is back with the system as soon as it is freed.
"""

from __future__ import annotations

import mmap

from shoal.runtimes.base import OutOfMemory
from shoal.runtimes.fake.options import FakeOptions


class Memory:
    """What all models of the process hold together."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        self._mappings: dict[str, mmap.mmap] = {}
        self._leaked: list[mmap.mmap] = []

    def take(self, model: str, options: FakeOptions) -> None:
        """Hold what a model needs. Raises `OutOfMemory` where the device has not so much left."""
        free = self._free(options)
        if free is not None and options.bytes > free:
            raise OutOfMemory(f"'{model}' needs {options.bytes} bytes and the device has {free}")
        if options.holds:
            self._mappings[model] = _written(options.bytes)
        self._held[model] = options.bytes

    def give_back(self, model: str, options: FakeOptions) -> None:
        """Hold it no longer, but for what leaks."""
        del self._held[model]
        mapping = self._mappings.pop(model, None)
        if mapping is not None:
            mapping.close()
        if options.leaks:
            self._leaked.append(_written(options.leaks))

    def _free(self, options: FakeOptions) -> int | None:
        if options.device_bytes is None:
            return None
        return options.device_bytes - sum(self._held.values()) - sum(map(len, self._leaked))


def _written(size: int) -> mmap.mmap:
    mapping = mmap.mmap(-1, max(1, size))
    mapping[:: mmap.PAGESIZE] = b"\1" * -(-len(mapping) // mmap.PAGESIZE)
    return mapping
