"""Token ids of what is said in each clip, as generation_config.json rules.

Terms of a clip, each an id and a number: -1 and the temperature at which the text was said; the id
of silence and the logarithm of its likelihood; the language, if the model knows several; then the text
with a time before and after each piece, where times are asked for, and its end, each with its logarithm.
What a text begins with is not told. Reference: `transformers.models.whisper.generation_whisper`, clips of
one window.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import torch

from shoal.errors import ModelLoadFailed
from shoal.runtimes.batch import Beginning
from shoal.runtimes.torch.configs import read_config
from shoal.runtimes.torch.heads.base import Ground, Head, HeadOutput, read_options
from shoal.runtimes.torch.heads.writing import HEARD, Rules, Text, Writer
from shoal.runtimes.torch.packed import Packed
from shoal.spelling import nearest

#: In place of an id, where the temperature stands.
_TEMPERATURE = -1


class TranscriptOptions(msgspec.Struct, frozen=True):
    """Of texts that nothing else is said of. `language`: as ``en``; None: heard. `task`: translating
    is into English."""

    language: str | None = None
    task: Literal["transcribe", "translate"] = "transcribe"
    times: bool = True


def transcript(options: dict[str, Any], ground: Ground) -> Head:
    """Terms, as above."""
    asked = read_options(options, TranscriptOptions)
    if ground.layout.speaker is None:
        raise ModelLoadFailed("head 'transcript' needs a decoder of speech")
    rules = read_config(ground.layers.folder / "generation_config.json", Rules)
    speaker = ground.layout.speaker(ground.layers)
    own = _own(rules, asked)
    writer = Writer(speaker, rules, ground.layers.device)

    def compute(hidden: torch.Tensor, packed: Packed) -> HeadOutput:
        clips = len(packed.rows)
        given = packed.beginnings or [Beginning()] * clips
        beginnings = [b if b.ids else msgspec.structs.replace(b, ids=own) for b in given]
        texts = writer.write(hidden.view(clips, packed.longest, -1), beginnings)
        return _terms(texts, rules)

    # Clips that are heard again for another try are held a second time.
    return Head(compute, bytes_per_token=2 * speaker.bytes_per_token)


def _own(rules: Rules, asked: TranscriptOptions) -> tuple[int, ...]:
    """What texts begin with. Raises `ModelLoadFailed` for what the model cannot do."""
    ids = [rules.decoder_start_token_id]
    if asked.language is not None:
        ids.append(_language(asked.language, rules))
    elif rules.lang_to_id:
        ids.append(HEARD)
    task = rules.task_to_id.get(asked.task)
    if task is not None:
        ids.append(task)
    elif asked.task != "transcribe":
        raise ModelLoadFailed("this model cannot translate; it has no `task_to_id`")
    if not asked.times:
        ids.append(rules.no_timestamps_token_id)
    return tuple(ids)


def _language(name: str, rules: Rules) -> int:
    token = f"<|{name.lower()}|>"
    if token not in rules.lang_to_id:
        known = [known.strip("<|>") for known in rules.lang_to_id]
        raise ModelLoadFailed(
            f"this model does not know the language {name!r}{nearest(name, known)}; "
            + (f"it knows {', '.join(known)}" if known else "it knows one alone")
        )
    return rules.lang_to_id[token]


def _terms(texts: list[Text], rules: Rules) -> HeadOutput:
    ids: list[int] = []
    values: list[float] = []
    for text in texts:
        ids += [_TEMPERATURE, rules.silence, *text.language, *text.ids]
        values += [text.temperature, text.silence, *(0.0 for _ in text.language), *text.logs]
    lengths = torch.tensor([2 + len(text.language) + len(text.ids) for text in texts])
    terms = torch.tensor(ids, dtype=torch.int32)
    return HeadOutput(torch.tensor(values, dtype=torch.float32), lengths, terms)
