"""What an SGLang server answers while it generates, and the text that comes of it.

Pure. Written after ``managers/tokenizer_manager.py``, ``managers/schedule_batch.py`` and
``entrypoints/http_server.py`` of SGLang 0.5.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta as Limits

from shoal.errors import ComputeFailed, InvalidRequest, ShoalError
from shoal.wire.arrays import to_wire
from shoal.wire.socket import Chunk, Sampling

#: A token, as 32 bits hold it: larger ones would fail whatever else a pass brought.
Id = Annotated[int, Limits(ge=0, lt=1 << 31)]
#: Logarithm of the likelihood, id, text where it was asked for; JSON has no minus infinity.
Triple = tuple[float | None, Id, Any]
#: For that: below any that a float32 softmax gives.
_NEVER = -9999.0


class Finish(msgspec.Struct, frozen=True):
    """Why a text ended. `type`: ``stop``, ``length`` or ``abort``; `matched`: the id that ended it."""

    type: str
    matched: Any = None
    message: str | None = None
    status_code: int | None = None


class Meta(msgspec.Struct, frozen=True):
    """Counts are of all so far; the lists are cumulative as `Answer.output_ids`."""

    finish_reason: Finish | None = None
    completion_tokens: int = 0
    cached_tokens: int = 0
    output_token_logprobs: list[Triple] | None = None
    output_top_logprobs: list[list[Triple] | None] | None = None


class Refusal(msgspec.Struct, frozen=True):
    """What the server found wrong. `code`: as HTTP has it; only newer versions tell it."""

    message: str
    code: Any = 400


class Answer(msgspec.Struct, frozen=True):
    """An event of a stream. `output_ids`: all so far, or with ``--incremental-streaming-output`` those
    since the last."""

    output_ids: list[Id] | None = None
    meta_info: Meta = Meta()
    error: Refusal | None = None

    def failure(self) -> ShoalError | None:
        """What went wrong, and whose fault it was."""
        if self.error is not None:
            return _failure(f"SGLang: {self.error.message}", self.error.code)
        finish = self.meta_info.finish_reason
        if finish is None or finish.type != "abort":
            return None
        said = f"SGLang ended it: {finish.message or 'no reason was given'}"
        return _failure(said, finish.status_code)

    @property
    def full(self) -> bool:
        """Whether the server has no room for another, for now."""
        finish = self.meta_info.finish_reason
        return finish is not None and finish.type == "abort" and finish.status_code == 503


def _failure(said: str, status: Any) -> ShoalError:
    return InvalidRequest(said) if status in range(400, 500) else ComputeFailed(said)


_decoder = msgspec.json.Decoder(Answer)


def read(event: bytes) -> Answer | None:
    """An event of a stream; None for its end. Raises `ComputeFailed` for what is none."""
    _, found, data = event.partition(b"data:")
    if data.strip() == b"[DONE]":
        return None
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError as error:
        shown = bytes(event[:80]) if found else event[:80]
        raise ComputeFailed(
            f"SGLang sent what is no answer of a text: {error}: {shown!r}"
        ) from None


class More(NamedTuple):
    """What an answer adds to a text; `finish`: it is over."""

    chunk: Chunk | None
    finish: Literal["stop", "length"] | None


class Text:
    """A sequence's tokens so far.

    Attributes:
        new_tokens: that were generated, one that ended it too.
        cached_tokens: of its prompt, that were computed before.
    """

    def __init__(self, batch: int, sampling: Sampling) -> None:
        self.new_tokens = self.cached_tokens = 0
        self._batch, self._sampling = batch, sampling
        self._told = 0

    def more(self, answer: Answer) -> More:
        """Raises `ComputeFailed` for an answer without ids."""
        meta = answer.meta_info
        self.cached_tokens = max(self.cached_tokens, meta.cached_tokens)
        ids, at = self._after(answer)
        finish = meta.finish_reason
        end = next((n for n, token in enumerate(ids) if token in self._sampling.stop), None)
        ended: Literal["stop", "length"] | None = None
        count = len(ids)
        if end is not None:  # also where the server took it for the last of its most tokens
            ended, count = "stop", end
        elif finish is not None:
            ended = "length" if finish.type == "length" else "stop"
            count -= self._is_end(finish, ids)
        self.new_tokens = self._told + (len(ids) if end is None else end + 1)
        chunk = self._chunk(answer, ids[:count], at) if count else None
        self._told += count
        return More(chunk, ended)

    def _after(self, answer: Answer) -> tuple[list[int], int]:
        """The ids that were not told yet, and where the first of them stands in the answer's lists."""
        meta, ids = answer.meta_info, answer.output_ids
        if (
            self._sampling.logprobs >= 0
        ):  # an answer may have more ids than likelihoods, never fewer
            ids = [token for _, token, _ in meta.output_token_logprobs or ()]
        if ids is None:
            raise ComputeFailed("SGLang's answer has no output_ids; version 0.5 or newer has them")
        begin = max(0, meta.completion_tokens - len(ids))
        at = max(0, self._told - begin)
        return ids[at:], at

    def _is_end(self, finish: Finish, ids: list[int]) -> bool:
        """Whether the last id is none of the text: an end of the model's own. A grammar ends with an id
        of its text."""
        return bool(
            finish.type == "stop"
            and self._sampling.grammar is None
            and ids
            and ids[-1] == finish.matched
        )

    def _chunk(self, answer: Answer, ids: list[int], at: int) -> Chunk:
        tokens = to_wire(np.array(ids, np.int32))
        if (top := self._sampling.logprobs) < 0:
            return Chunk(self._batch, tokens)
        own = (answer.meta_info.output_token_logprobs or [])[at : at + len(ids)]
        likely = (answer.meta_info.output_top_logprobs or [])[at : at + len(ids)]
        rows = [[*(row or ())][:top] for row in likely] or [[] for _ in ids]
        if len(rows) != len(ids) or any(len(row) != top for row in rows):
            raise ComputeFailed(
                f"SGLang told of {len(rows)} tokens' likelihoods, not of {len(ids)}"
            )
        top_ids = [[token for _, token, _ in row] for row in rows]
        values = [[_finite(value) for value, _, _ in row] for row in rows]
        return Chunk(
            self._batch,
            tokens,
            to_wire(np.array([_finite(value) for value, _, _ in own], np.float32)),
            to_wire(np.array(top_ids, np.int32).reshape(len(ids), top)),
            to_wire(np.array(values, np.float32).reshape(len(ids), top)),
        )


def _finite(value: float | None) -> float:
    return _NEVER if value is None else value
