"""What a unit counts before anything is tokenized: bytes that are read, sequences of its model, and what
may be generated.

Decides how a query and labels count with the items that they are for. Gateway and worker price a unit
by the same rule: the one cuts and admits by it, the other takes on no more than it will start. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from shoal.catalog.tasks import COMPARED, Tasks
from shoal.values import (
    BYTES_PER_TOKEN,
    EncodeParams,
    ExtractParams,
    GenerateParams,
    Params,
    ScoreParams,
    TokenizeParams,
)


class Size(NamedTuple):
    """Bytes that are read, sequences, each of at most the model's longest, and tokens that they may
    become; 0: not told."""

    bytes: int
    sequences: int
    new_tokens: int = 0


class Reading(msgspec.Struct, frozen=True):
    """How the items of a unit are read.

    Attributes:
        beside_bytes: of query and instruction, or of all labels, where each item is read with them.
        times: how often an item is read, once for each label where it is tested for them; 0: its bytes say
            nothing, and what is read of it is among those beside.
        sequences: how many an item is.
        apart: query and instruction, or labels, where they are sequences of their own, read once a
            unit.
        new_tokens: that an item may become, of a text that is generated; 0: not told.
    """

    beside_bytes: int = 0
    times: int = 1
    sequences: int = 1
    apart: Size = Size(0, 0)
    new_tokens: int = 0

    @property
    def carried_bytes(self) -> int:
        """What travels with each unit beside its items."""
        return self.beside_bytes + self.apart.bytes

    def item(self, item_bytes: int) -> Size:
        """What one item counts."""
        read = item_bytes * self.times + self.beside_bytes
        return Size(read, self.sequences, self.new_tokens)

    def unit(self, item_bytes: int, items: int) -> Size:
        """What a unit counts, of items with so many bytes together."""
        read = item_bytes * self.times + items * self.beside_bytes
        sequences = self.apart.sequences + items * self.sequences
        return Size(self.apart.bytes + read, sequences, items * self.new_tokens)


#: Bytes of text that an image in a conversation counts as: SmolVLM's 17 squares, each of 64 tokens and of two that
#: say where it is. Its file says less: of one size, a photograph has a hundred times the bytes of a drawing.
IMAGE_BYTES = int(17 * 66 * BYTES_PER_TOKEN)

#: Items of which each is read by itself.
ALONE = Reading()


def most_new(params: GenerateParams, tasks: Tasks) -> int:
    """Tokens that an item may become: as asked, else as the card says; 0: not told."""
    said = None if tasks.generate is None else tasks.generate.max_new_tokens
    return params.max_tokens or said or 0


def reading_of(params: Params, tasks: Tasks) -> Reading:
    """How a model with these tasks reads the items of a unit."""
    match params:
        case EncodeParams(instruction=instruction):
            return Reading(len(instruction.encode())) if instruction else ALONE
        case ScoreParams(query, instruction=instruction):
            asked = len(query) + len((instruction or "").encode())
            if tasks.score is not None and tasks.score.head in COMPARED:
                return Reading(apart=Size(asked, 1))
            return Reading(asked)
        case ExtractParams(labels, schema=schema):
            if schema:
                return Reading(len(schema.encode()))
            if not labels:
                return ALONE
            count, size = len(labels), sum([len(label.encode()) for label in labels])
            match tasks.extract and tasks.extract.head:
                case "nli":
                    return Reading(size, times=count, sequences=count)
                case "image-text":
                    return Reading(apart=Size(size, count))
                case "spans":  # a token stands before each label
                    return Reading(size + int(BYTES_PER_TOKEN * count))
            return Reading(size)
        case GenerateParams(tools=tools, read_bytes=said):
            beside, most = len(tools.encode()), most_new(params, tasks)
            if said:
                return Reading(beside + said, times=0, new_tokens=most)
            return Reading(beside, new_tokens=most)
        case TokenizeParams():
            return ALONE
