"""Sequences that are generated: what a text consists of, what decides it, and how places are shared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec
import numpy as np

from shoal.runtimes.check.process import Process
from shoal.runtimes.check.subject import BASE, Subject
from shoal.runtimes.check.verdict import Faulty, expect, needs, shown
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.socket import (
    AskStats,
    CancelBatch,
    Chunk,
    Done,
    Failed,
    FromRuntime,
    Generate,
    Generated,
    Loaded,
    Sampling,
    Stats,
    Unload,
    Unloaded,
)

#: Long enough that others come and go beside it.
_LONG = Sampling(100, temperature=0.0)
_SHORT = 8
_SECOND = "second"
#: Of texts that are drawn; by chance no two of them are alike.
_DRAWN = 24
_SEEDS = 3


@dataclass
class _Text:
    """What came of a sequence so far."""

    tokens: list[int] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    over: Generated | None = None


class _Texts:
    """Sequences under way on a process, by number; `others` is what else came."""

    def __init__(self, process: Process, *asked: Generate) -> None:
        self._process = process
        self._texts: dict[int, _Text] = {}
        self.others: list[FromRuntime] = []
        self.ask(*asked)

    def __getitem__(self, batch: int) -> _Text:
        return self._texts[batch]

    def ask(self, *asked: Generate) -> None:
        self._texts.update((each.batch, _Text()) for each in asked)
        self._process.send(*asked)

    def hear(self) -> FromRuntime:
        """One message, and what it changes. Raises `Faulty` where it is of no sequence under way."""
        message = self._process.hear_any("'chunk' or 'generated'")
        if isinstance(message, Chunk | Generated):
            text = self._texts.get(message.batch)
            if text is None or text.over is not None:
                raise Faulty(f"of no sequence that is under way came {shown(message)}")
            if isinstance(message, Chunk):
                text.chunks.append(message)
                text.tokens += from_wire(message.tokens).tolist()
            else:
                text.over = message
        else:
            self.others.append(message)
        return message

    def until_over(self, *batches: int) -> list[_Text]:
        """These, whole; all of them where none is named."""
        wanted = [self._texts[batch] for batch in batches or self._texts]
        while any(text.over is None for text in wanted):
            message = self.hear()
            if isinstance(message, Failed):
                raise Faulty(f"'chunk' or 'generated' was due, and {shown(message)} came")
        return wanted

    def until_begun(self, batch: int) -> None:
        """Its first tokens came."""
        while not self._texts[batch].chunks:
            self.hear()


def sequences_where_none_are_taken(subject: Subject) -> None:
    """A runtime that does not generate refuses a sequence, and lives on."""
    needs(not subject.capabilities.streams, "it generates")
    ids = to_wire(np.array([1, 2], np.int32))
    failed = subject.resident.ask(Generate(5, BASE, ids, Sampling(4)), Failed)
    expect(failed.code == "invalid_request", f"'invalid_request' was due, {shown(failed)} came")
    expect(failed.batch == 5, f"sequence 5 was sent, {failed.batch} was answered")
    subject.works(subject.resident)


def a_sequence(subject: Subject) -> None:
    """A sequence becomes as many tokens as were asked for, the same ones each time at temperature 0."""
    texts = []
    for number in (1, 2):
        [text] = _Texts(subject.resident, subject.generate(number, _greedy())).until_over()
        texts.append(text)
        _whole(text, "length", _SHORT)
    expect(
        texts[0].tokens == texts[1].tokens,
        f"at temperature 0 it becomes {texts[0].tokens}, and then {texts[1].tokens}",
    )


def an_id_that_ends_it(subject: Subject) -> None:
    """One of the ids in `stop` ends a text, is counted as generated, and is no part of it."""
    [text] = _Texts(subject.resident, subject.generate(1, _greedy())).until_over()
    last = text.tokens[-1]
    length = text.tokens.index(last)
    asked = subject.generate(2, _greedy(stop=[last]))
    [ended] = _Texts(subject.resident, asked).until_over()
    _whole(ended, "stop", length)
    expect(ended.tokens == text.tokens[:length], f"{ended.tokens} stand before the end")


def what_is_drawn(subject: Subject) -> None:
    """The seed decides a text that is drawn, and not what it is generated beside."""
    seeds = [Sampling(_DRAWN, seed=seed) for seed in range(_SEEDS)]
    asked = [subject.generate(number, seed) for number, seed in enumerate(seeds)]
    together = [text.tokens for text in _Texts(subject.resident, *asked).until_over()]
    for each, tokens in zip(asked, together, strict=True):
        [alone] = _Texts(subject.resident, each).until_over()
        expect(alone.tokens == tokens, f"{tokens} beside others, {alone.tokens} alone")
    expect(len(set(map(tuple, together))) > 1, f"{_SEEDS} seeds give one text: {together[0]}")


def what_is_told_of_tokens(subject: Subject) -> None:
    """Where it is asked for, the likeliest tokens of each place come with the text, the likeliest first."""
    [text] = _Texts(subject.resident, subject.generate(1, _greedy(logprobs=2))).until_over()
    for chunk in text.chunks:
        count = len(from_wire(chunk.tokens))
        told = (chunk.logprobs, chunk.top_ids, chunk.top_logprobs)
        expect(all(each is not None for each in told), "a chunk came without what was asked for")
        own, ids, likely = (from_wire(each) for each in told if each is not None)
        shapes = [array.shape for array in (own, ids, likely)]
        expect(shapes == [(count,), (count, 2), (count, 2)], f"of {count} tokens came {shapes}")
        expect(bool((likely <= 0).all() and (own <= 0).all()), "a likelihood is over 1")
        expect(bool((likely[:, 0] >= likely[:, 1]).all()), "the likeliest does not come first")
        first = ids[:, 0].tolist()
        expect(
            first == from_wire(chunk.tokens).tolist(),
            f"at temperature 0 the likeliest are taken, {first}",
        )
    [silent] = _Texts(subject.resident, subject.generate(2, _greedy())).until_over()
    expect(all(chunk.logprobs is None for chunk in silent.chunks), "it tells what nobody asked for")


def one_joins_those_under_way(subject: Subject) -> None:
    """A sequence that comes later is generated beside those under way, not after them."""
    texts = _under_way(subject)
    texts.ask(subject.generate(2, _greedy(), 1))
    texts.until_over(2)
    expect(texts[1].over is None, "a long text was over before one of a few tokens")
    _call_off(subject.resident, texts, 1)


def more_than_there_are_places(subject: Subject) -> None:
    """Sequences for which there is no place wait, and all of them are answered."""
    with _one_place(subject) as process:
        asked = [subject.generate(number, _greedy(), number, _SECOND) for number in range(3)]
        for text in _Texts(process, *asked).until_over():
            _whole(text, "length", _SHORT)


def cancel_a_sequence(subject: Subject) -> None:
    """A sequence that is called off ends before the next pass, and gives its place to one that waits."""
    with _one_place(subject) as process:
        texts = _Texts(process, *(subject.generate(n, _LONG, n, _SECOND) for n in (1, 2)))
        texts.until_begun(1)
        _call_off(process, texts, 1)
        texts.until_begun(2)
        _call_off(process, texts, 2)


def cancel_one_that_waits(subject: Subject) -> None:
    """A sequence that is called off before there is a place for it is answered too."""
    with _one_place(subject) as process:
        texts = _Texts(process, *(subject.generate(n, _LONG, n, _SECOND) for n in (1, 2)))
        texts.until_begun(1)
        process.send(CancelBatch(2))
        while texts[2].over is None and not texts.others:
            texts.hear()
        for other in texts.others:
            expect(
                isinstance(other, Failed) and (other.code, other.batch) == ("cancelled", 2),
                f"'cancelled' of 2 was due, and {shown(other)} came",
            )
        expect(texts[1].over is None, "the one that has the place ended first")
        _call_off(process, texts, 1)


def batches_between_passes(subject: Subject) -> None:
    """A batch has its turn while a long text is generated, and stats are told."""
    run, texts = subject.run(2), _under_way(subject)
    subject.resident.send(run, AskStats())
    while len(texts.others) < 2:
        texts.hear()
    expect(texts[1].over is None, "a long text was over before a batch had its turn")
    kinds = {type(message) for message in texts.others}
    expect(kinds == {Done, Stats}, f"'done' and 'stats' were due, {texts.others} came")
    _call_off(subject.resident, texts, 1)


def unload_waits_for_sequences(subject: Subject) -> None:
    """A model goes when its sequences are over."""
    process, asked = subject.resident, subject.generate(1, _greedy(), 0, _SECOND)
    process.ask(subject.load(_SECOND), Loaded)
    texts = _Texts(process, asked)
    process.send(Unload(_SECOND))
    while not texts.others:
        texts.hear()
    expect(texts[1].over is not None, "the model went before its sequence was over")
    expect(isinstance(texts.others[0], Unloaded), f"{shown(texts.others[0])} came")


def a_sequence_without_sense(subject: Subject) -> None:
    """A prompt that has no tokens, or none of the model's, is refused, and the next one is not."""
    process, asked = subject.resident, subject.generate(6, _greedy())
    for ids in ([], [subject.sample.bad_id]):
        prompt = to_wire(np.array(ids, np.int32))
        failed = process.ask(msgspec.structs.replace(asked, tokens=prompt), Failed)
        expect(failed.batch == 6, f"sequence 6 was sent, {failed.batch} was answered")
        expect(bool(failed.code and failed.message), f"it does not say why: {shown(failed)}")
    [text] = _Texts(process, subject.generate(7, _greedy())).until_over()
    _whole(text, "length", _SHORT)


def _under_way(subject: Subject) -> _Texts:
    """A long text, of which the first tokens came."""
    texts = _Texts(subject.resident, subject.generate(1, _LONG))
    texts.until_begun(1)
    return texts


def _greedy(logprobs: int = -1, stop: Sequence[int] = ()) -> Sampling:
    return Sampling(_SHORT, temperature=0.0, logprobs=logprobs, stop=[*stop])


def _whole(text: _Text, finish: str, tokens: int) -> None:
    """That a text ended so, with so many tokens before what ends it."""
    over = text.over
    assert over is not None
    expect(over.finish == finish, f"it ended by '{over.finish}', not by '{finish}'")
    expect(len(text.tokens) == tokens, f"{tokens} tokens were due, and {len(text.tokens)} came")
    counted = tokens + (finish == "stop")
    expect(over.new_tokens == counted, f"{counted} were generated, it says {over.new_tokens}")


def _call_off(process: Process, texts: _Texts, batch: int) -> None:
    process.send(CancelBatch(batch))
    [text] = texts.until_over(batch)
    assert text.over is not None
    expect(text.over.finish == "cancelled", f"it was called off, and ended by '{text.over.finish}'")
    told = len(text.tokens)
    expect(text.over.new_tokens >= told, f"{told} tokens came, it says {text.over.new_tokens}")


@contextmanager
def _one_place(subject: Subject) -> Iterator[Process]:
    """The shared process, with a model that generates one sequence at a time."""
    process, prompts = subject.resident, subject.prompts
    assert prompts
    process.ask(msgspec.structs.replace(subject.load(_SECOND), sequences=1), Loaded)
    yield process
    process.ask(Unload(_SECOND), Unloaded)


CHECKS = (
    sequences_where_none_are_taken,
    a_sequence,
    an_id_that_ends_it,
    what_is_drawn,
    what_is_told_of_tokens,
    one_joins_those_under_way,
    more_than_there_are_places,
    cancel_a_sequence,
    cancel_one_that_waits,
    batches_between_passes,
    unload_waits_for_sequences,
    a_sequence_without_sense,
)
