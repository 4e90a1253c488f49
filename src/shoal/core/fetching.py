"""The files of models: a model is loaded, and room is made for it, once they are here.

A download may take minutes. It holds up no lane, and nobody makes room for it meanwhile. Knows
neither lanes nor where files come from.
"""

from __future__ import annotations

from shoal.core.events import Fetch, Instruction
from shoal.core.models import ModelState

#: Files that take this long will never come: 20 GB over 100 Mbit/s do.
LIMIT_S = 1800.0


class Fetching:
    """Which models of a worker have their files here, or on the way."""

    def __init__(self, models: dict[str, ModelState]) -> None:
        self._missing = {name for name, model in models.items() if not model.spec.fetched}
        self._coming: set[str] = set()

    @property
    def complete(self) -> bool:
        """Whether the files of all models are here."""
        return not self._missing

    def here(self, model: str) -> bool:
        return model not in self._missing

    def coming(self, model: str) -> bool:
        return model in self._coming

    def ask(self, model: str) -> list[Instruction]:
        """Have its files fetched, unless they are here or on the way."""
        if self.here(model) or self.coming(model):
            return []
        self._coming.add(model)
        return [Fetch(model, LIMIT_S)]

    def fetched(self, model: str) -> None:
        self._missing.discard(model)
        self._coming.discard(model)

    def failed(self, model: str) -> None:
        """They may be asked for again."""
        self._coming.discard(model)
