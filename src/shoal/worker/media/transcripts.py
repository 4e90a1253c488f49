"""What makes a text of the token ids that a speech model said, read from its folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec

from shoal.catalog.card import Card
from shoal.errors import ModelLoadFailed, reason
from shoal.tasks.transcript import Transcript
from shoal.worker.media.decoding import Decoded
from shoal.worker.vocabulary import read_tokenizer


class _Rules(msgspec.Struct):
    no_timestamps_token_id: int
    lang_to_id: dict[str, int] = {}


class Transcripts:
    """For one model."""

    def __init__(self, card: Card, folder: Path) -> None:
        """Raises `ModelLoadFailed` where the folder's files cannot be used."""
        path = folder / "generation_config.json"
        try:
            rules = msgspec.json.decode(path.read_bytes(), type=_Rules)
            tokenizer = read_tokenizer(folder / card.tokenizer)
        except BaseException as error:  # the tokenizer's library raises bare Exception, and panics
            raise ModelLoadFailed(
                f"{path} or {card.tokenizer} beside it cannot be used: {reason(error)}"
            ) from None
        self._text_of = partial(tokenizer.decode, skip_special_tokens=True)
        self._first_time = rules.no_timestamps_token_id + 1
        self._languages = {
            token: name.removeprefix("<|").removesuffix("|>")
            for name, token in rules.lang_to_id.items()
        }

    def finish(self, decoded: Decoded) -> Transcript:
        """How the ids of a file's windows become its transcript."""
        return Transcript(
            self._text_of, self._first_time, self._languages, decoded.starts_s, decoded.seconds
        )
