"""Messages between gateways and workers, over the broker: units, answers, pulses, dead letters."""

from __future__ import annotations

import msgspec

from shoal.errors import ErrorInfo
from shoal.values import Encoding, Params, Task, TrafficClass
from shoal.wire.arrays import Array
from shoal.wire.codec import Amount, Buffer, Count, Message, Seconds, decode


class Payload(msgspec.Struct, frozen=True, array_like=True):
    """Where an item lies that was too large for the queue: its key in the payload store, its size."""

    key: str
    bytes: int


class Unit(Message, frozen=True, tag="unit"):
    """The piece of a request that sits on the queue.

    Attributes:
        id: unique over all gateways; `request` is the id of the HTTP call it belongs to.
        items: one entry an item, still in the caller's `encoding`.
        budget_s: seconds from the broker's timestamp until nobody wants the answer.
        reply_to: subject at which the asking gateway listens.
        tenant: who shares with others, ``<name of the API key>/<user>``; see `core.fairness`.
        trace: W3C ``traceparent`` of the request, if it is traced.
        priority: higher goes first among the units of one tenant; 0 is the default.
        payloads: position -> where that item is kept; its entry in `items` is empty.
    """

    id: str
    request: str
    model: str
    task: Task
    params: Params
    encoding: Encoding
    items: list[bytes]
    budget_s: float
    reply_to: str
    klass: TrafficClass = "work"
    tenant: str = ""
    adapter: str | None = None
    version: str | None = None
    trace: str | None = None
    priority: int = 0
    payloads: dict[int, Payload] = {}

    def __post_init__(self) -> None:
        """Raises `ValueError` for a payload of no item: a message that says so cannot be read."""
        for position in self.payloads:
            if not 0 <= position < len(self.items):
                raise ValueError(f"payload of item {position}, and there are {len(self.items)}")

    @property
    def payload_bytes(self) -> int:
        """Of the items that are kept elsewhere."""
        return sum(payload.bytes for payload in self.payloads.values())

    @property
    def item_bytes(self) -> int:
        """Of all items, wherever they are."""
        return sum(map(len, self.items)) + self.payload_bytes


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
        outputs: head -> array with one row per item *without* an error, in order; `lengths` and
            `indices` where these are ragged or sparse, see `wire.outputs.Output`.
        objects: in place of outputs, an answer in MessagePack per item *without* an error.
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
    lengths: dict[str, Array] = {}
    indices: dict[str, Array] = {}
    objects: list[bytes] = []


class ReplyPart(Message, frozen=True, tag="part"):
    """One numbered piece of an encoded `Reply` that is larger than the broker's message limit."""

    unit: str
    worker: str
    part: int
    parts: int
    data: bytes


class CallPart(msgspec.Struct, frozen=True, array_like=True):
    """A call of a tool begins, with its `name`, or goes on (None): `text`, more of its arguments."""

    index: Count
    name: str | None
    text: str


class Piece(Message, frozen=True, tag="piece"):
    """More of a text that is being generated. One that is lost is made good by the next `Reply`.

    It has one of `text`, `reasoning` and `call`, or tokens alone; the latter two only where the unit asks
    for parts `apart`.

    Attributes:
        item: position in the unit.
        at: characters (code points) of the item's text that come before; `reasoning_at`, `call_at`:
            likewise of its reasoning, and of the arguments of all its calls.
        told: what is told of the tokens since the last piece, a `wire.objects.TokenLogprob` each, in
            MessagePack; `told_at`: how many came before.
    """

    unit: str
    worker: str
    item: int
    at: Count
    text: str
    told: bytes = b""
    told_at: Count = 0
    reasoning: str = ""
    reasoning_at: Count = 0
    call: CallPart | None = None
    call_at: Count = 0


class Cancel(Message, frozen=True, tag="cancel"):
    """The callers of these requests are gone."""

    requests: list[str]


class ModelPulse(msgspec.Struct, frozen=True, array_like=True):
    """What a worker says of one model.

    Attributes:
        seconds_per_byte, seconds_per_item: predicted cost of text as the gateway sees it.
        state: ``resident``, ``loading`` or ``failed``.
        longest_item_s: predicted cost of an item of the model's maximum length; longer ones are cut.
        bytes, load_s: held by one copy, and how long loading it took; 0 until it was loaded once.
        pinned: this worker never evicts it.
        batch_s: predicted seconds up to which it fills a batch, or of as many texts as it generates
            at once; 0: not told.
        failures: loads that failed there in a row; 0 for one that failed on other workers alone.
        unserved: it failed since the packages of its runtime are not installed there.
        again_s: seconds until that worker may try again what failed; 0: not told, or now.
        runtime: the kind of runtime that computes it there; empty: not told.
        seconds_per_new_token, new_tokens: of a text that is generated, and how many one is expected to
            become; they are in `seconds_per_item` and `longest_item_s`. 0: it generates none, or not told.
    """

    state: str
    lanes: Count
    seconds_per_byte: Seconds
    seconds_per_item: Seconds
    shelf_s: Seconds = 0.0
    reason: str | None = None
    longest_item_s: Seconds | None = None
    bytes: Count = 0
    load_s: Seconds = 0.0
    pinned: bool = False
    batch_s: Seconds = 0.0
    failures: Count = 0
    unserved: bool = False
    again_s: Seconds = 0.0
    runtime: str = ""
    seconds_per_new_token: Seconds = 0.0
    new_tokens: Amount = 0.0


class LaneMemory(msgspec.Struct, frozen=True, array_like=True):
    """Bytes of one lane: held by models, the budget for them, and resident in its processes."""

    held_bytes: Count
    budget_bytes: Count
    rss_bytes: Count = 0


class WorkerPulse(Message, frozen=True, tag="worker-pulse"):
    """Published by every worker each period; level-triggered, so a lost one costs a period."""

    worker: str
    pool: str
    host: str
    lanes: list[str]
    models: dict[str, ModelPulse]
    units_held: Count = 0
    draining: bool = False
    ready: bool = False  # every lane did a forward pass lately (or answered a probe)
    memory: dict[str, LaneMemory] = {}


class GatewayPulse(Message, frozen=True, tag="gateway-pulse"):
    """Predicted seconds that wait for each model in one gateway, published each period.

    Attributes:
        outstanding_s: of all interactive requests it has; `queued_s`: of the units that are on the queue.
        requests: how many requests those are. `bulk_s`: as `outstanding_s`, of the bulk class.
        waiting_s, bulk_waiting_s: by tenant, what of them waits in the gateway and is not on the
            queue; no more than 64 tenants of a model, where ``…`` is the user for the rest of a key.
    """

    gateway: str
    pool: str
    outstanding_s: dict[str, Seconds]
    queued_s: dict[str, Seconds] = {}
    requests: dict[str, Count] = {}
    bulk_s: dict[str, Seconds] = {}
    waiting_s: dict[str, dict[str, Seconds]] = {}
    bulk_waiting_s: dict[str, dict[str, Seconds]] = {}


class Pulled(Message, frozen=True, tag="pulled"):
    """A worker pulls, or pulled, a batch of a model, and what that leaves on the queue.

    Attributes:
        pending: units that are left; `due_in_s`: seconds until the first of them should be under
            way, less than 0 if that is past. An older view than the hearer's own does no harm.
    """

    worker: str
    model: str
    pending: int
    due_in_s: float
    klass: TrafficClass = "work"


class DeadLetter(Message, frozen=True, tag="dead-letter"):
    """A unit that was given up, as it is kept for whoever looks into why.

    Attributes:
        data: the unit as it lay on the queue, whether or not it can be read.
        code, reason: of the error that its caller got.
        strikes: how often it took a runtime down.
        items: positions of the items at fault; none: all of them.
    """

    data: bytes
    code: str
    reason: str
    worker: str
    strikes: int = 0
    items: list[int] = []
    model: str = ""
    tenant: str = ""
    request: str = ""


QueueMessage = (
    Unit | Reply | ReplyPart | Piece | Cancel | WorkerPulse | GatewayPulse | Pulled | DeadLetter
)

_decoder = msgspec.msgpack.Decoder(QueueMessage)


def decode_queue(data: Buffer) -> QueueMessage:
    """A message from the broker. Raises `ProtocolError` for anything else."""
    return decode(_decoder, data, "queue message")
