"""The runtime processes of a lane, and the batches that they run."""

from __future__ import annotations

from shoal.core.events.base import Value
from shoal.core.events.units import Item
from shoal.errors import ErrorInfo


class RuntimeStarted(Value, frozen=True):
    """`device_bytes`: memory of its device, where that is apart from the process's own; else 0."""

    lane: str
    kind: str
    device_bytes: int = 0


class RuntimeDied(Value, frozen=True):
    """The process is gone: it crashed, was killed, or could not start."""

    lane: str
    kind: str
    reason: str


class RuntimeStopped(Value, frozen=True):
    """The process ended as it was told to by `StopRuntime`: no crash."""

    lane: str
    kind: str


class StatsSeen(Value, frozen=True):
    """What a runtime process holds: its resident set, and bytes by model."""

    lane: str
    kind: str
    rss_bytes: int
    models: dict[str, int]


class ProcessorSeen(Value, frozen=True):
    """The processor time that a runtime process used since it began, of all its threads together."""

    lane: str
    kind: str
    processor_s: float


class Finished(Value, frozen=True):
    """A batch is done; `seconds` by the runtime's own clock; `failed`: places of items in it that
    have an error in place of an answer; `new_tokens`: that a sequence became;
    `cut`: it may become no more."""

    lane: str
    batch: int
    seconds: float
    failed: tuple[int, ...] = ()
    new_tokens: int = 0
    cut: bool = False


class Progressed(Value, frozen=True):
    """A runtime told more of a sequence; sent now and then, not for each token."""

    lane: str
    kind: str


class BatchFailed(Value, frozen=True):
    """A batch came back undone; the runtime lives."""

    lane: str
    batch: int
    error: ErrorInfo


class StartRuntime(Value, frozen=True):
    lane: str
    kind: str


class StopRuntime(Value, frozen=True):
    """End the process gracefully, to start it anew; `RuntimeStopped` follows."""

    lane: str
    kind: str


class KillRuntime(Value, frozen=True):
    """It hangs: end the process at once; `RuntimeDied` follows."""

    lane: str
    kind: str


class AskStats(Value, frozen=True):
    """Ask a runtime process what it holds; `StatsSeen` follows."""

    lane: str
    kind: str


class AskProcessor(Value, frozen=True):
    """Read the processor time of a runtime process that is silent; `ProcessorSeen` follows, if it can be."""

    lane: str
    kind: str


class End(Value, frozen=True):
    """End this sequence, wherever it is; `Finished` or `BatchFailed` follows."""

    lane: str
    batch: int


class Run(Value, frozen=True):
    """Send this batch to the lane's runtime; of a model that has places for sequences, one item.

    `generates`: it is a sequence that the runtime generates, until it ends or is told `End`.
    """

    lane: str
    batch: int
    model: str
    items: list[Item]
    predicted_s: float
    generates: bool = False
