"""What the answer to an item takes, before anything is read: a unit's answer is to be one message.

Decides how outputs, labels and tokens count; what is read for them is told by `tasks.reading`. Pure.
"""

from __future__ import annotations

import math

import msgspec

from shoal.catalog.tasks import EncodeTask, Tasks
from shoal.tasks.fde import WIDTH as FDE_WIDTH
from shoal.tasks.outputs import FDE
from shoal.tasks.reading import most_new
from shoal.values import (
    BYTES_PER_TOKEN,
    EncodeParams,
    ExtractParams,
    GenerateParams,
    Params,
    ScoreParams,
    TokenizeParams,
    VectorDType,
)

#: Beside its vector, an item's answer has a token count, and a share of the frame.
ITEM_OVERHEAD_BYTES = 16
_DTYPE_BYTES: dict[VectorDType, float] = {
    "float32": 4,
    "float16": 2,
    "int8": 1,
    "uint8": 1,
    "binary": 1 / 8,
}
#: SPLADE gives a passage of 256 tokens some 220 terms; each is an index and a weight.
_SPARSE_BYTES = 256 * 8

#: Of labels whose number nobody says, a dozen; each is its name, a score and the names of both.
_LABELS, _LABEL_BYTES = 12, 40
#: Of a text full of names, 60 bytes for each name of 15; a transcript's segments are no more.
_EXTRACT_PER_BYTE = 4.0
#: Of a token: the names of what is told of it, an id, two places, and its text.
_TOKEN_BYTES = 48
#: Of a generated token, or one that could have stood there: its text, its bytes, its likelihood.
_TOLD_BYTES = 48
#: Heads that tell all labels of each item.
_LABELLING = ("sequence-labels", "image-labels", "nli", "image-text")


class AnswerSize(msgspec.Struct, frozen=True):
    """Expected bytes of an item's answer: `item_bytes`, and `per_byte` of what the item has."""

    item_bytes: int
    per_byte: float = 0.0


def answer_size(params: Params, tasks: Tasks, max_tokens: int) -> AnswerSize:
    """What an item's answer takes, of a model that reads and writes so many tokens in all."""
    match params:
        case EncodeParams():
            assert tasks.encode is not None, "its parameters were checked"
            return _encoded_size(params, tasks.encode)
        case ScoreParams():
            return AnswerSize(ITEM_OVERHEAD_BYTES)
        case ExtractParams(labels):
            task = tasks.extract
            if task is None or task.head not in _LABELLING:
                return AnswerSize(ITEM_OVERHEAD_BYTES, _EXTRACT_PER_BYTE)
            names = labels or task.labels
            told = sum([len(name.encode()) for name in names]) + _LABEL_BYTES * len(names)
            return AnswerSize(ITEM_OVERHEAD_BYTES + (told or _LABELS * _LABEL_BYTES))
        case GenerateParams():
            told = 0 if params.logprobs is None else _TOLD_BYTES * (1 + params.logprobs)
            tokens = min(most_new(params, tasks) or max_tokens, max_tokens)
            return AnswerSize(ITEM_OVERHEAD_BYTES + tokens * (int(BYTES_PER_TOKEN) + told))
        case TokenizeParams():
            return AnswerSize(ITEM_OVERHEAD_BYTES, _TOKEN_BYTES / BYTES_PER_TOKEN)


def _encoded_size(params: EncodeParams, task: EncodeTask) -> AnswerSize:
    number = _DTYPE_BYTES[params.dtype]
    item_bytes, per_byte = float(ITEM_OVERHEAD_BYTES), 0.0
    if task.dense is not None and "dense" in params.outputs:
        item_bytes += (params.dimensions or task.dense.dim) * number
    if "sparse" in params.outputs:
        item_bytes += _SPARSE_BYTES
    if FDE in params.outputs:
        item_bytes += FDE_WIDTH * number
    if task.multivector is not None and "multivector" in params.outputs:
        token_bytes = task.multivector.dim * number
        item_bytes += token_bytes * (task.multivector.filled or 2)  # the special ones
        per_byte = token_bytes / BYTES_PER_TOKEN
    return AnswerSize(math.ceil(item_bytes), per_byte)
