"""What a text of a speech model begins with, and what makes a text of the ids that it said.

Both are read from the model's folder.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from shoal.catalog.card import Card
from shoal.errors import InvalidRequest, ModelLoadFailed, reason
from shoal.spelling import nearest
from shoal.tasks.transcript import Transcript
from shoal.values import Speech
from shoal.worker.media.decoding import Decoded
from shoal.worker.prepared import Ids
from shoal.worker.vocabulary import read_tokenizer

#: In place of the language that is to be heard, in `Run.begins`.
_HEARD = -1


class _Rules(msgspec.Struct):
    decoder_start_token_id: int
    eos_token_id: int
    no_timestamps_token_id: int
    prev_sot_token_id: int | None = None
    lang_to_id: dict[str, int] = {}
    task_to_id: dict[str, int] = {}


class _Config(msgspec.Struct):
    max_target_positions: int = 448


class Transcripts:
    """For one model."""

    def __init__(self, card: Card, folder: Path) -> None:
        """Raises `ModelLoadFailed` where the folder's files cannot be used."""
        path = folder / "generation_config.json"
        try:
            rules = msgspec.json.decode(path.read_bytes(), type=_Rules)
            config = msgspec.json.decode((folder / "config.json").read_bytes(), type=_Config)
            self._tokenizer = read_tokenizer(folder / card.tokenizer)
        except BaseException as error:  # the tokenizer's library raises bare Exception, and panics
            raise ModelLoadFailed(
                f"{path}, config.json or {card.tokenizer} beside it cannot be used: {reason(error)}"
            ) from None
        self._rules, self._own = rules, card.languages
        self._previous = rules.prev_sot_token_id
        if self._previous is None:
            self._previous = self._tokenizer.token_to_id("<|startofprev|>")
        # As many as Whisper keeps of what was said before: half of a text, less its marker.
        self._most_prompt = config.max_target_positions // 2 - 1
        self._text_of = partial(self._tokenizer.decode, skip_special_tokens=True)
        self._codes = {name.strip("<|>"): token for name, token in rules.lang_to_id.items()}
        self._languages = {token: code for code, token in self._codes.items()}

    def finish(self, decoded: Decoded) -> Transcript:
        """How the ids of a file's windows become its transcript."""
        return Transcript(
            self._text_of,
            self._rules.no_timestamps_token_id + 1,
            self._rules.eos_token_id,
            self._languages,
            decoded.starts_s,
            decoded.seconds,
        )

    def begin(self, asked: Speech) -> Ids:
        """What each window's text begins with: [n] int32, as `Run.begins` has it.

        Raises:
            InvalidRequest: a language that the model does not know, a translation that it cannot
                make, or a prompt that it cannot read.
        """
        ids = [*self._prompt(asked.prompt), self._rules.decoder_start_token_id]
        ids += self._language(asked.language)
        task = self._rules.task_to_id.get(asked.task)
        if task is not None:
            ids.append(task)
        elif asked.task == "translate":
            raise InvalidRequest(
                "this model cannot translate: it was taught one language alone", param="task"
            )
        return np.array(ids, np.int32)

    def _language(self, code: str | None) -> list[int]:
        if not self._codes:
            if code is None or [code.lower()] == self._own:
                return []
            only = f": it knows {self._own[0]} alone" if len(self._own) == 1 else ""
            raise InvalidRequest(f"this model takes no language{only}", param="language")
        if code is None:
            return [_HEARD]
        token = self._codes.get(code.lower())
        if token is None:
            raise InvalidRequest(
                f"this model does not know the language '{code[:20]}'{nearest(code, self._codes)}; "
                f"it knows {', '.join(self._codes)}",
                param="language",
            )
        return [token]

    def _prompt(self, text: str | None) -> list[int]:
        """The end of what might have been said before, behind its marker."""
        if text is None or not text.strip():
            return []
        if self._previous is None:
            raise InvalidRequest(
                "this model reads no prompt: it has no <|startofprev|>", param="prompt"
            )
        ids = self._tokenizer.encode(f" {text.strip()}", add_special_tokens=False).ids
        special = self._rules.eos_token_id
        if any(token >= special for token in ids):
            raise InvalidRequest(
                "the prompt has special tokens of the model in it; send text alone",
                param="prompt",
            )
        return [self._previous, *ids[-self._most_prompt :]]
