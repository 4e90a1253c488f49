"""How the tokens of a text are chosen: what the caller says, else the card, else the model's folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from shoal.catalog.document import read_json
from shoal.catalog.tasks import GenerateTask
from shoal.errors import InvalidRequest
from shoal.values import GenerateParams
from shoal.wire.socket import Sampling


class _Config(msgspec.Struct):
    """Of `generation_config.json`, and of `config.json` for the ids."""

    eos_token_id: int | list[int] | None = None
    bos_token_id: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    max_new_tokens: int | None = None
    text_config: _Config | None = None

    @property
    def ends(self) -> list[int]:
        own = self.eos_token_id
        found = [] if own is None else [own] if isinstance(own, int) else own
        return found or (self.text_config.ends if self.text_config is not None else [])


class Defaults:
    """Of one model.

    Attributes:
        stop: ids that end its texts; of a card without any all that its folder says, as configuration
            and tokenizer of a model that was tuned for conversations may each name another.
        begin: what a text begins with, where config.json says.
    """

    def __init__(self, folder: Path, task: GenerateTask, eos: int | None) -> None:
        """`eos`: the tokenizer's. Raises `ModelLoadFailed` for a file that cannot be read."""
        self._task = task
        generation, config = (
            read_json(folder / name, _Config, _Config())
            for name in ("generation_config.json", "config.json")
        )
        self._config = generation
        self.begin = config.bos_token_id
        of_folder = [*generation.ends, *config.ends, *([] if eos is None else [eos])]
        self.stop = _once(task.stop or of_folder)

    def sampling(
        self,
        params: GenerateParams,
        room: int,
        vocabulary: int,
        *,
        stop: Iterable[int] = (),
        grammar: tuple[str, str] | None = None,
    ) -> Sampling:
        """`room`: tokens that the model has left; `stop`: ids that end this text too; `grammar`: in
        place of the caller's.

        Raises `InvalidRequest` for a bias on what is no token.
        """
        for token, _ in params.bias:
            if not 0 <= token < vocabulary:
                raise InvalidRequest(
                    f"logit bias on token {token}, which is outside the vocabulary "
                    f"(0 to {vocabulary - 1})",
                    param="bias",
                )
        most = params.max_tokens or self._said("max_new_tokens", None, room)
        return Sampling(
            new_tokens=min(most, room),
            temperature=self._said("temperature", params.temperature, 1.0),
            top_p=self._said("top_p", params.top_p, 1.0),
            top_k=self._said("top_k", params.top_k, 0),
            min_p=self._said("min_p", params.min_p, 0.0),
            presence=params.presence_penalty,
            frequency=params.frequency_penalty,
            repetition=self._said("repetition_penalty", params.repetition_penalty, 1.0),
            seed=params.seed,
            bias=dict(params.bias),
            stop=_once([*self.stop, *stop]),
            logprobs=-1 if params.logprobs is None else params.logprobs,
            grammar=grammar or params.grammar,
        )

    def _said(self, name: str, asked: Any, otherwise: Any) -> Any:
        found = (asked, getattr(self._task, name), getattr(self._config, name))
        return next((value for value in found if value is not None), otherwise)


def _once(ids: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(ids))
