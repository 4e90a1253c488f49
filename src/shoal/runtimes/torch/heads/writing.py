"""Writes down what a decoder of speech says of clips: token by token, several clips in step.

Decides which clips go together, which tokens are allowed, and at which temperature they are chosen; whether
a text went wrong is `tasks.transcript`'s. Reference: `transformers.models.whisper.generation_whisper`.
"""

from __future__ import annotations

from typing import Any

import msgspec
import torch
from torch import Tensor

from shoal.runtimes.batch import Beginning
from shoal.runtimes.torch.heads.speaking import Speaker
from shoal.runtimes.torch.heads.times import Times
from shoal.tasks.transcript import TEMPERATURES, went_wrong

#: In place of the language that is to be heard.
HEARD = -1
#: Of what is drawn at temperatures above 0, by each clip for itself: no answer depends on its batch.
_SEED = 0
_NEVER = float("-inf")


class Rules(msgspec.Struct, frozen=True):
    """The keys of generation_config.json that change what is said."""

    decoder_start_token_id: int
    eos_token_id: int
    no_timestamps_token_id: int
    suppress_tokens: list[int] | None = None
    begin_suppress_tokens: list[int] | None = None
    max_initial_timestamp_index: int | None = None
    lang_to_id: dict[str, int] = {}
    task_to_id: dict[str, int] = {}

    @property
    def silence(self) -> int:
        """The token that says that nothing is said, which has no key of its own."""
        return self.no_timestamps_token_id - 1


class Text(msgspec.Struct):
    """What was said of a clip.

    Attributes:
        silence: logarithm of the likelihood that nothing is said.
        language: its token, where one stands in the beginning or was heard; else none.
        ids: those that follow the beginning, the end included, if it came. `logs`: logarithms of
            their likelihoods, whatever the temperature.
    """

    silence: float
    language: list[int]
    temperature: float = 0.0
    ids: list[int] = []
    logs: list[float] = []

    def wrong(self, vocabulary: int) -> bool:
        """Whether it should be said again."""
        if not self.ids:
            return False
        avg = sum(self.logs) / len(self.logs)
        return went_wrong(self.ids, avg, float(torch.tensor(self.silence).exp()), vocabulary)


class Writer:
    """For one model."""

    def __init__(self, speaker: Speaker, rules: Rules, device: torch.device) -> None:
        self._speaker, self._rules, self._device = speaker, rules, device
        self._times = Times(
            rules.no_timestamps_token_id, rules.eos_token_id, rules.max_initial_timestamp_index
        )
        self._languages = sorted(rules.lang_to_id.values())
        self._barred = torch.tensor(rules.suppress_tokens or [], device=device).long()
        first = [*(rules.begin_suppress_tokens or [])]
        self._barred_first = torch.tensor(first, device=device).long()

    def write(self, hidden: Tensor, beginnings: list[Beginning]) -> list[Text]:
        """The text of each clip: hidden [clips, frames, width]."""
        alike: dict[tuple[Any, ...], list[int]] = {}
        for clip, beginning in enumerate(beginnings):
            alike.setdefault(self._kind(beginning), []).append(clip)
        if len(alike) == 1:
            return self._together(hidden, beginnings)
        texts: dict[int, Text] = {}
        for clips in alike.values():
            own = self._together(hidden[clips], [beginnings[clip] for clip in clips])
            texts |= zip(clips, own, strict=True)
        return [texts[clip] for clip in range(len(beginnings))]

    def _kind(self, beginning: Beginning) -> tuple[Any, ...]:
        """Clips of one kind are written in step: their tokens have the same places."""
        ids = beginning.ids
        start = ids.index(self._rules.decoder_start_token_id)
        return len(ids), start, HEARD in ids, self._timed(ids), beginning.temperature

    def _timed(self, ids: tuple[int, ...]) -> bool:
        return self._rules.no_timestamps_token_id not in ids

    def _together(self, hidden: Tensor, beginnings: list[Beginning]) -> list[Text]:
        memory = self._speaker.listen(hidden)
        begun = [list(beginning.ids) for beginning in beginnings]
        texts = self._heard(memory, begun)
        timed = self._timed(beginnings[0].ids)
        given = beginnings[0].temperature
        temperatures = TEMPERATURES if given < 0 else (given,)
        draws = [torch.Generator(self._device).manual_seed(_SEED) for _ in texts]
        open_ = list(range(len(texts)))
        for number, temperature in enumerate(temperatures):
            own = memory.keep(self._places(open_)) if number else memory
            own.forget()
            for clip in open_:
                texts[clip].temperature, texts[clip].ids, texts[clip].logs = temperature, [], []
            chosen = [texts[clip] for clip in open_]
            vocabulary = self._say(
                own, [begun[clip] for clip in open_], chosen, [draws[c] for c in open_], timed
            )
            open_ = [clip for clip in open_ if texts[clip].wrong(vocabulary)]
            if not open_:
                break
        return texts

    def _heard(self, memory: Any, begun: list[list[int]]) -> list[Text]:
        """How likely silence is, and the language, which takes its place in what a text begins with."""
        start = begun[0].index(self._rules.decoder_start_token_id)
        logits = self._speaker.say(self._tokens([ids[: start + 1] for ids in begun]), memory)
        silence = logits.log_softmax(1)[:, self._rules.silence].tolist()
        if HEARD in begun[0]:
            if start:  # what was said before tells nothing of what is heard
                memory.forget()
                alone = [[self._rules.decoder_start_token_id]] * len(begun)
                logits = self._speaker.say(self._tokens(alone), memory)
            best = logits[:, self._languages].argmax(1).tolist()
            at = begun[0].index(HEARD)
            for ids, place in zip(begun, best, strict=True):
                ids[at] = self._languages[place]
        known = set(self._languages)
        return [
            Text(likely, [token for token in ids[start + 1 :] if token in known])
            for likely, ids in zip(silence, begun, strict=True)
        ]

    def _say(
        self,
        memory: Any,
        begun: list[list[int]],
        texts: list[Text],
        draws: list[torch.Generator],
        timed: bool,
    ) -> int:
        """Says the texts to their ends; returns how many tokens there are to choose from."""
        new = self._tokens(begun)
        room = self._speaker.most_tokens - len(begun[0])
        going = list(range(len(texts)))
        vocabulary = 0
        while going and room > 0:
            logits = self._speaker.say(new, memory)
            vocabulary = logits.shape[1]
            logits = self._allowed(logits, [texts[n].ids for n in going], timed=timed)
            temperature = texts[0].temperature
            said = _chosen(logits, temperature, [draws[n] for n in going])
            logs = logits.log_softmax(1).gather(1, said[:, None])[:, 0].tolist()
            tokens = said.tolist()
            for clip, token, log in zip(going, tokens, logs, strict=True):
                texts[clip].ids.append(token)
                texts[clip].logs.append(log)
            left = [n for n, token in enumerate(tokens) if token != self._rules.eos_token_id]
            if len(left) < len(going):
                memory = memory.keep(self._places(left))
            going = [going[n] for n in left]
            new = self._tokens([[tokens[n]] for n in left])
            room -= 1
        return vocabulary

    def _places(self, clips: list[int]) -> Tensor:
        return torch.tensor(clips, device=self._device).long()

    def _tokens(self, ids: list[list[int]]) -> Tensor:
        return torch.tensor(ids, dtype=torch.int64, device=self._device)

    def _allowed(self, logits: Tensor, texts: list[list[int]], *, timed: bool) -> Tensor:
        logits[:, self._barred] = _NEVER
        if not texts[0]:
            logits[:, self._barred_first] = _NEVER
        return self._times.allowed(logits, texts) if timed else logits


def _chosen(logits: Tensor, temperature: float, draws: list[torch.Generator]) -> Tensor:
    """The likeliest token of each clip, or one drawn: int64 [clips]."""
    if temperature == 0:
        return logits.argmax(1)
    shares = (logits / temperature).softmax(1)
    drawn = [row.multinomial(1, generator=draw) for row, draw in zip(shares, draws, strict=True)]
    return torch.cat(drawn)
