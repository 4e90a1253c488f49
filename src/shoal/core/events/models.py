"""The models on a lane: how they come and go."""

from __future__ import annotations

from shoal.core.events.base import Value


class Fetched(Value, frozen=True):
    """The files of a model are here, with so many bytes of tensors as they will be loaded; 0: not
    known."""

    model: str
    bytes: int = 0


class FetchFailed(Value, frozen=True):
    """The files of a model cannot be had, or did not come in time.

    `unserved`: this machine lacks the packages of its runtime, and another may have them.
    """

    model: str
    reason: str
    unserved: bool = False


class FilesChanged(Value, frozen=True):
    """The files of a model that could not be loaded are others now, and whole."""

    model: str


class Loaded(Value, frozen=True):
    lane: str
    model: str
    bytes: int
    seconds: float


class LoadFailed(Value, frozen=True):
    """`out_of_memory`: the device was full; it may fit once something else is gone."""

    lane: str
    model: str
    reason: str
    out_of_memory: bool = False


class Evicted(Value, frozen=True):
    """The runtime let go of the model: its bytes are free."""

    lane: str
    model: str


class Fetch(Value, frozen=True):
    """Have the files of the model here, within `limit_s`; `Fetched` or `FetchFailed` follows."""

    model: str
    limit_s: float


class Load(Value, frozen=True):
    lane: str
    model: str


class Evict(Value, frozen=True):
    """Tell the runtime to let go of the model; `Evicted` follows."""

    lane: str
    model: str
    reason: str = ""
