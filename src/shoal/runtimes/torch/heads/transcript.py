"""Token ids of what is said in each clip, greedily, as generation_config.json rules.

A row of a clip holds the language that was heard, if the model knows several; then its text, with
a time before and after each piece where times are asked for. Neither what every text begins with
nor the end is told. Reference: `transformers.models.whisper.generation_whisper`, clips of one
window, no sampling.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import torch
from torch import Tensor

from shoal.errors import ModelLoadFailed, nearest
from shoal.runtimes.torch.configs import read_config
from shoal.runtimes.torch.heads.base import Ground, Head, HeadOutput, read_options
from shoal.runtimes.torch.heads.speaking import Speaker
from shoal.runtimes.torch.heads.times import Times
from shoal.runtimes.torch.packed import Packed

_NEVER = float("-inf")


class TranscriptOptions(msgspec.Struct, frozen=True):
    """`language`: as ``en``; None: heard. `task`: translating is into English."""

    language: str | None = None
    task: Literal["transcribe", "translate"] = "transcribe"
    times: bool = True


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


def transcript(options: dict[str, Any], ground: Ground) -> Head:
    """Ragged rows: [tokens] int32."""
    asked = read_options(options, TranscriptOptions)
    if ground.layout.speaker is None:
        raise ModelLoadFailed("head 'transcript' needs a decoder of speech")
    rules = read_config(ground.layers.folder / "generation_config.json", Rules)
    speaker = ground.layout.speaker(ground.layers)
    writer = Writer(speaker, rules, asked, ground.layers.device)

    def compute(hidden: Tensor, packed: Packed) -> HeadOutput:
        texts = writer.write(hidden.view(len(packed.rows), packed.longest, -1))
        lengths = torch.tensor([len(text) for text in texts])
        ids = [token for text in texts for token in text]
        return HeadOutput(torch.tensor(ids, dtype=torch.int32), lengths)

    return Head(compute, bytes_per_token=speaker.bytes_per_token)


class Writer:
    """Writes down what a speaker says of clips."""

    def __init__(
        self, speaker: Speaker, rules: Rules, asked: TranscriptOptions, device: torch.device
    ) -> None:
        self._speaker, self._rules, self._device = speaker, rules, device
        self._language = None if asked.language is None else _language(asked.language, rules)
        task = rules.task_to_id.get(asked.task)
        if asked.task != "transcribe" and task is None:
            raise ModelLoadFailed("this model cannot translate; it has no `task_to_id`")
        self._after = [] if task is None else [task]
        self._times: Times | None = None
        if asked.times:
            self._times = Times(
                rules.no_timestamps_token_id, rules.eos_token_id, rules.max_initial_timestamp_index
            )
        else:
            self._after.append(rules.no_timestamps_token_id)
        self._barred = torch.tensor(rules.suppress_tokens or [], device=device).long()
        first = [*(rules.begin_suppress_tokens or [])]
        self._barred_first = torch.tensor(first, device=device).long()

    def write(self, hidden: Tensor) -> list[list[int]]:
        """The text of each clip: hidden [clips, frames, width]."""
        memory = self._speaker.listen(hidden)
        start = self._tokens([[self._rules.decoder_start_token_id]] * len(hidden))
        languages = self._heard(start, memory)
        texts: list[list[int]] = [[] for _ in languages]
        begun = [known + self._after for known in languages]
        if self._rules.lang_to_id:
            new = self._tokens(begun)  # the start was said to hear the language
        else:
            new = torch.cat([start, self._tokens(begun)], 1)
        room = self._speaker.most_tokens - 1 - len(begun[0])
        going = list(range(len(texts)))
        while going and room > 0:
            logits = self._allowed(self._speaker.say(new, memory), [texts[n] for n in going])
            said = logits.argmax(1).tolist()
            left = [place for place, token in enumerate(said) if token != self._rules.eos_token_id]
            for place in left:
                texts[going[place]].append(said[place])
            if len(left) < len(going):
                memory = memory.keep(torch.tensor(left, device=self._device).long())
            going = [going[place] for place in left]
            new = self._tokens([[said[place]] for place in left])
            room -= 1
        return [known + text for known, text in zip(languages, texts, strict=True)]

    def _tokens(self, ids: list[list[int]]) -> Tensor:
        return torch.tensor(ids, dtype=torch.int64, device=self._device)

    def _heard(self, start: Tensor, memory: Any) -> list[list[int]]:
        """The language of each clip, if the model knows several."""
        known = sorted(self._rules.lang_to_id.values())
        if not known:
            return [[] for _ in start]
        logits = self._speaker.say(start, memory)
        if self._language is not None:
            return [[self._language] for _ in start]
        best = logits[:, known].argmax(1)
        return [[known[place]] for place in best.tolist()]

    def _allowed(self, logits: Tensor, texts: list[list[int]]) -> Tensor:
        logits[:, self._barred] = _NEVER
        if not texts[0]:
            logits[:, self._barred_first] = _NEVER
        return logits if self._times is None else self._times.allowed(logits, texts)


def _language(name: str, rules: Rules) -> int:
    token = f"<|{name.lower()}|>"
    if token not in rules.lang_to_id:
        known = [known.strip("<|>") for known in rules.lang_to_id]
        raise ModelLoadFailed(
            f"this model does not know the language {name!r}{nearest(name, known)}; "
            + (f"it knows {', '.join(known)}" if known else "it knows one alone")
        )
    return rules.lang_to_id[token]
