"""Every message that crosses a process border, and its codec.

Queue messages (gateway <-> worker, over NATS): `Unit`, `Reply`, `ReplyPart`, `Cancel`,
`WorkerPulse`, `GatewayPulse`. Socket messages (worker <-> runtime, framed): the rest.
All are MessagePack arrays, ``[tag, field, ...]``; new fields are only ever appended with a
default, so that old and new processes understand each other.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from shoal.errors import ErrorInfo, ProtocolError
from shoal.values import EncodeParams, Encoding, Task, TrafficClass
from shoal.wire.arrays import Array

PROTOCOL_VERSION = 1


class Message(msgspec.Struct, frozen=True, array_like=True):
    """Base of all messages; each class has a tag of its own."""


# --- queue ------------------------------------------------------------------------------------


class Unit(Message, frozen=True, tag="unit"):
    """The piece of a request that sits on the queue.

    Attributes:
        id: unique over all gateways; `request` is the id of the HTTP call it belongs to.
        items: one entry an item, still in the caller's `encoding`.
        budget_s: seconds from the broker's timestamp until nobody wants the answer.
        reply_to: subject at which the asking gateway listens.
        trace: W3C ``traceparent`` of the request, if it is traced.
    """

    id: str
    request: str
    model: str
    task: Task
    params: EncodeParams
    encoding: Encoding
    items: list[bytes]
    budget_s: float
    reply_to: str
    klass: TrafficClass = "work"
    tenant: str = ""
    adapter: str | None = None
    version: str | None = None
    trace: str | None = None


class Timings(msgspec.Struct, frozen=True, array_like=True):
    """Where a unit's time went, in seconds; of its last batch where there were several."""

    queue_s: float = 0.0  # published until delivered, by the broker's clock
    prepare_s: float = 0.0  # decode and tokenize
    wait_s: float = 0.0  # on the worker's shelf
    compute_s: float = 0.0  # in the runtime, by the runtime's clock
    batch_items: int = 0
    delivery: int = 1  # 2 and more: redelivered


class Reply(Message, frozen=True, tag="reply"):
    """The answer to a unit.

    Attributes:
        ack: the JetStream ack subject of the delivery; the gateway acks there.
        tokens: tokens computed, per item (0 where the item failed).
        truncated: positions of items that were cut.
        errors: position -> error of the items that failed; only the gateway knows how the caller
            names them, so messages say "this item".
        outputs: head -> array with one row per item *without* an error, in order.
        error: set when the unit failed as a whole; then there is nothing else.
    """

    unit: str
    worker: str
    ack: str
    tokens: list[int] = []
    truncated: list[int] = []
    errors: dict[int, ErrorInfo] = {}
    outputs: dict[str, Array] = {}
    timings: Timings = Timings()
    error: ErrorInfo | None = None


class ReplyPart(Message, frozen=True, tag="part"):
    """One numbered piece of an encoded `Reply` that is larger than the broker's message limit."""

    unit: str
    worker: str
    part: int
    parts: int
    data: bytes


class Cancel(Message, frozen=True, tag="cancel"):
    """The callers of these requests are gone."""

    requests: list[str]


class ModelPulse(msgspec.Struct, frozen=True, array_like=True):
    """What a worker says of one model.

    Attributes:
        seconds_per_byte, seconds_per_item: predicted cost of text as the gateway sees it.
        state: ``resident``, ``loading`` or ``failed``.
        longest_item_s: predicted cost of an item of the model's maximum length; longer ones are cut.
    """

    state: str
    lanes: int
    seconds_per_byte: float
    seconds_per_item: float
    shelf_s: float = 0.0
    reason: str | None = None
    longest_item_s: float | None = None


class WorkerPulse(Message, frozen=True, tag="worker-pulse"):
    """Published by every worker each period; level-triggered, so a lost one costs a period."""

    worker: str
    pool: str
    host: str
    lanes: list[str]
    models: dict[str, ModelPulse]
    units_held: int = 0
    draining: bool = False
    ready: bool = False  # every lane did a forward pass lately (or answered a probe)


class GatewayPulse(Message, frozen=True, tag="gateway-pulse"):
    """Predicted seconds that wait for each model in one gateway, published each period."""

    gateway: str
    pool: str
    outstanding_s: dict[str, float]


# --- socket -----------------------------------------------------------------------------------


class Capabilities(msgspec.Struct, frozen=True, array_like=True):
    """What a runtime can do. `batching`: ``ours`` (takes batches) or ``self`` (batches itself);
    `inputs`: ``tokens``, ``text`` or ``media``."""

    batching: str = "ours"
    inputs: str = "tokens"
    families: list[str] = []
    lora: bool = False
    streams: bool = False


class Hello(Message, frozen=True, tag="hello"):
    """First message of a runtime on the socket."""

    kind: str
    version: str
    device: str
    capabilities: Capabilities
    protocol: int = PROTOCOL_VERSION


class Load(Message, frozen=True, tag="load"):
    """Load a model folder. `heads`: output name -> options of that head (pooling, dim, ...);
    `threads`: CPU threads that its batches may use, 0 for all of the process's."""

    model: str
    path: str
    family: str
    heads: dict[str, dict[str, Any]]
    dtype: str = "auto"
    max_tokens: int = 512
    options: dict[str, Any] = {}
    threads: int = 0


class Loaded(Message, frozen=True, tag="loaded"):
    model: str
    bytes: int
    seconds: float


class Unload(Message, frozen=True, tag="unload"):
    model: str


class Unloaded(Message, frozen=True, tag="unloaded"):
    model: str


class AddAdapter(Message, frozen=True, tag="add-adapter"):
    model: str
    adapter: str
    path: str


class RemoveAdapter(Message, frozen=True, tag="remove-adapter"):
    model: str
    adapter: str


class Run(Message, frozen=True, tag="run"):
    """One batch. For ``inputs: tokens``: `tokens` int32 [total_tokens] packed, `lengths` int32
    [n_items]. For ``inputs: text``: `texts`, one an item."""

    batch: int
    model: str
    heads: list[str]
    tokens: Array | None = None
    lengths: Array | None = None
    texts: list[str] | None = None
    adapters: list[str | None] | None = None


class Done(Message, frozen=True, tag="done"):
    """`arrays`: head -> [n_items, ...] in the order of the batch; `failed`: position -> why.

    `seconds` is compute time on the device; `computed_tokens` counts padding too.
    """

    batch: int
    arrays: dict[str, Array]
    seconds: float
    computed_tokens: int = 0
    failed: dict[int, ErrorInfo] = {}


class Chunk(Message, frozen=True, tag="chunk"):
    """A piece of a streamed answer."""

    batch: int
    item: int
    sequence: int
    data: bytes


class Failed(Message, frozen=True, tag="failed"):
    """What was asked could not be done. `batch` or `model` says what it was; `code` is that of the
    error class: ``out_of_memory``, ``model_load_failed``, ``unknown_model``, ``invalid_request``,
    ``cancelled``, or ``internal`` for what no class foresaw."""

    code: str
    message: str
    batch: int | None = None
    item: int | None = None
    model: str | None = None


class CancelBatch(Message, frozen=True, tag="cancel-batch"):
    batch: int


class AskStats(Message, frozen=True, tag="ask-stats"):
    pass


class Stats(Message, frozen=True, tag="stats"):
    """Bytes held per model, and the runtime process's resident set."""

    models: dict[str, int]
    rss_bytes: int
    batches: int


class Bye(Message, frozen=True, tag="bye"):
    """Either side ends the connection on purpose."""

    reason: str = ""


QueueMessage = Unit | Reply | ReplyPart | Cancel | WorkerPulse | GatewayPulse
ToRuntime = Load | Unload | AddAdapter | RemoveAdapter | Run | CancelBatch | AskStats | Bye
FromRuntime = Hello | Loaded | Unloaded | Done | Chunk | Failed | Stats | Bye

_encoder = msgspec.msgpack.Encoder()
_queue = msgspec.msgpack.Decoder(QueueMessage)
_to_runtime = msgspec.msgpack.Decoder(ToRuntime)
_from_runtime = msgspec.msgpack.Decoder(FromRuntime)

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")


def encode(message: Message) -> bytes:
    """One message as MessagePack."""
    return _encoder.encode(message)


def encode_into(message: Message, buffer: bytearray, offset: int) -> None:
    """One message as MessagePack into `buffer` from `offset` on; what was after it is cut."""
    _encoder.encode_into(message, buffer, offset)


def _decode(decoder: msgspec.msgpack.Decoder[T], data: Buffer, what: str) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, OverflowError) as error:
        raise ProtocolError(f"{what}: {error}") from None


def decode_queue(data: Buffer) -> QueueMessage:
    """A message from the broker. Raises `ProtocolError` for anything else."""
    return _decode(_queue, data, "queue message")


def decode_to_runtime(frame: Buffer) -> ToRuntime:
    """A frame sent by a worker. Raises `ProtocolError` for anything else."""
    return _decode(_to_runtime, frame, "frame from the worker")


def decode_from_runtime(frame: Buffer) -> FromRuntime:
    """A frame sent by a runtime. Raises `ProtocolError` for anything else."""
    return _decode(_from_runtime, frame, "frame from the runtime")
