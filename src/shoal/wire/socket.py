"""Messages between a worker and its runtimes, framed, over a Unix socket; see docs/protocol.md."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from shoal.errors import ErrorInfo
from shoal.wire.arrays import Array
from shoal.wire.codec import PROTOCOL_VERSION, Buffer, Count, Message, Seconds, decode


class Capabilities(msgspec.Struct, frozen=True, array_like=True):
    """What a runtime can do. `batching`: ``ours`` (takes batches) or ``self`` (batches itself);
    `inputs`: ``tokens``, ``text`` or ``media``; `streams`: takes `Generate` too."""

    batching: str = "ours"
    inputs: str = "tokens"
    families: list[str] = []
    lora: bool = False
    streams: bool = False


class Hello(Message, frozen=True, tag="hello"):
    """First message of a runtime on the socket. `device_bytes`: all memory of its device, 0 for a
    CPU, whose memory it shares with everybody."""

    kind: str
    version: str
    device: str
    capabilities: Capabilities
    protocol: int = PROTOCOL_VERSION
    device_bytes: int = 0


class Load(Message, frozen=True, tag="load"):
    """Load a model folder. `heads`: output name -> options of that head (pooling, dim, ...);
    `threads`: CPU threads that its batches may use, 0 for all of the process's; `sequences`: how many
    may be generated at once, 0 for a model that generates nothing."""

    model: str
    path: str
    family: str
    heads: dict[str, dict[str, Any]]
    dtype: str = "auto"
    max_tokens: int = 512
    options: dict[str, Any] = {}
    threads: int = 0
    sequences: Count = 0


class Loaded(Message, frozen=True, tag="loaded"):
    model: str
    bytes: Count
    seconds: Seconds


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
    [n_items]. For ``inputs: text``: `texts`, one an item. For ``inputs: media``: `media`, the bytes
    of one file an item, and `texts` for items that are none: the entry of the other is empty.

    Items that are two texts have in `splits` int32 [n_items] the tokens of the first (0: one text
    alone). Media that the worker decoded is in `inputs`, an array an item: an image as uint8
    [height, width, 3] in the size that the model takes, sound as float32 log-mel [bins, frames];
    an item of tokens has an empty one there, and an item there has no tokens. A model that reads
    images among tokens gets both: the images as one array, [images, height, width, 3], and a token of
    its own for each part of them.

    Tokens that others do not attend to come last in their item: `seen` int32 [n_items] says how many
    come before them (0: all are seen).

    `marks` uint8 [total_tokens]: the tokens that stand for words of a text (1) and for the labels
    that are looked for in it (2), for the head ``spans``; 0: the others.

    Of sound that is transcribed, `begins` holds for each item the ids that its text begins with, int32
    [n], with -1 where the language that is heard belongs (none: as the model does by itself), and
    `temperatures` float32 [n_items] that of the choice of tokens; below 0, it begins with 0 and rises
    as a text needs."""

    batch: int
    model: str
    heads: list[str]
    tokens: Array | None = None
    lengths: Array | None = None
    texts: list[str] | None = None
    adapters: list[str | None] | None = None
    media: list[bytes] | None = None
    splits: Array | None = None
    inputs: list[Array] | None = None
    seen: Array | None = None
    marks: Array | None = None
    begins: list[Array] | None = None
    temperatures: Array | None = None


class Done(Message, frozen=True, tag="done"):
    """`arrays`: head -> [n_items, ...] in the order of the batch; `failed`: position -> why.

    `seconds` is compute time on the device; `computed_tokens` counts padding too. A head with a
    number of rows each item has them end to end, and in `lengths` int32 [n_items]; one of sparse
    vectors has beside its values `indices` int32. See `wire.outputs.Output`.
    """

    batch: int
    arrays: dict[str, Array]
    seconds: float
    computed_tokens: int = 0
    failed: dict[int, ErrorInfo] = {}
    lengths: dict[str, Array] = {}
    indices: dict[str, Array] = {}


class Sampling(msgspec.Struct, frozen=True, array_like=True):
    """How the tokens of a sequence are chosen.

    A token's logit is first divided or multiplied by `repetition` if prompt or text have the token
    (CTRL, Keskar et al., 2019), then `presence` and `frequency` times its count in the text are taken
    off and `bias` is added. `temperature` 0 takes the highest. Else logits are divided by it, the
    `top_k` highest are left, of those the fewest whose likelihoods reach `top_p`, of those the ones
    with at least `min_p` of the highest likelihood; and of these one is drawn by the number that
    `seed` and the token's place in the text give, so that nothing else decides (`runtimes.drawing`).

    Attributes:
        new_tokens: most that are generated.
        top_k: 0: all.
        stop: ids that end the sequence, and are no part of its text.
        logprobs: how many of the likeliest ids are told beside each token, with the logarithms of
            their likelihoods before anything of the above; -1: nothing is told.
        grammar: (kind, text) as `GenerateParams.grammar`; no other text is generated.
    """

    new_tokens: Count
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence: float = 0.0
    frequency: float = 0.0
    repetition: float = 1.0
    seed: int = 0
    bias: dict[int, float] = {}
    stop: list[int] = []
    logprobs: int = -1
    grammar: tuple[str, str] | None = None


class Generate(Message, frozen=True, tag="generate"):
    """Generate one sequence, beside all others that are under way; for runtimes that say `streams`.

    Answered by any number of `Chunk` and, exactly once, by `Generated` or `Failed` with its number.

    Attributes:
        batch: its number; of the same count as those of `Run`.
        tokens: int32 [n], of the prompt.
        inputs: images among the tokens, as in `Run`.
    """

    batch: int
    model: str
    tokens: Array
    sampling: Sampling
    adapter: str | None = None
    inputs: list[Array] | None = None


class Chunk(Message, frozen=True, tag="chunk"):
    """The next tokens of a sequence, those that end it left out.

    Attributes:
        tokens: int32 [n].
        logprobs: float32 [n], of these tokens; `top_ids` int32 and `top_logprobs` float32 [n, k] of the
            likeliest in their places, the likeliest first. None unless asked for.
    """

    batch: int
    tokens: Array
    logprobs: Array | None = None
    top_ids: Array | None = None
    top_logprobs: Array | None = None


class Generated(Message, frozen=True, tag="generated"):
    """A sequence ended.

    Attributes:
        finish: at one of `stop` or the grammar's end; at its most tokens, or the model's; or as asked.
        new_tokens: that were generated, one that ended it counts too.
        cached_tokens: of its prompt, that were computed before.
        seconds: its share of the device's time: of a pass for several sequences each has a part.
    """

    batch: int
    finish: Literal["stop", "length", "cancelled"]
    new_tokens: Count
    seconds: Seconds
    cached_tokens: Count = 0


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
    """Drop a batch that has not started; end a sequence, wherever it is."""

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


ToRuntime = (
    Load | Unload | AddAdapter | RemoveAdapter | Run | Generate | CancelBatch | AskStats | Bye
)
FromRuntime = Hello | Loaded | Unloaded | Done | Chunk | Generated | Failed | Stats | Bye

_to_runtime = msgspec.msgpack.Decoder(ToRuntime)
_from_runtime = msgspec.msgpack.Decoder(FromRuntime)


def decode_to_runtime(frame: Buffer) -> ToRuntime:
    """A frame sent by a worker. Raises `ProtocolError` for anything else."""
    return decode(_to_runtime, frame, "frame from the worker")


def decode_from_runtime(frame: Buffer) -> FromRuntime:
    """A frame sent by a runtime. Raises `ProtocolError` for anything else."""
    return decode(_from_runtime, frame, "frame from the runtime")
