"""What one GGUF file generates, with the keys in llama.cpp's hands.

Sequences share one store of them; those of some that ended are kept beside it, so that a prompt which begins
alike computes only what is new.
"""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

from shoal.errors import ShoalError
from shoal.runtimes.generating import generator
from shoal.runtimes.generating.choice import Choice
from shoal.runtimes.generating.generator import Bounds, Part
from shoal.runtimes.generating.sequence import Sequence, Told
from shoal.runtimes.gguf.choosing import Chooser
from shoal.runtimes.gguf.keys import Keys
from shoal.runtimes.gguf.library import Context, Row
from shoal.wire.socket import Load

#: Where its keys are is llama.cpp's business.
Own = Sequence[None]
#: First guess of the seconds that a row takes.
_ROW_S = 2e-3


class Room(NamedTuple):
    """For tokens: `places` of sequences under way, `kept` of those that ended; `rows`: of a pass, at most."""

    places: int
    kept: int
    rows: int


class Generator(generator.Generator[None]):
    """Of one loaded file."""

    def __init__(self, load: Load, context: Context, room: Room) -> None:
        max_tokens, prompts = min(load.max_tokens, context.max_tokens), room.rows - load.sequences
        bounds = Bounds(context.vocabulary, max_tokens, room.places, prompts, _ROW_S)
        super().__init__("gguf", load, bounds)
        self._context = context
        self._keys = Keys(context, load.sequences, room.places, room.kept)
        self._choosers: dict[int, Chooser] = {}

    def close(self) -> None:
        """Nothing is generated any more."""
        super().close()
        self._context.close()

    def _placed(self, sequence: Own) -> bool:
        taken = self._keys.take(sequence.tokens, sequence.room)
        if taken is None:
            return False
        sequence.place, sequence.computed = taken
        sequence.cached = sequence.computed
        self._choosers[sequence.place] = Chooser(sequence.sampling, sequence.tokens)
        return True

    def _free(self, sequence: Own) -> None:
        """What it computed stays while nobody needs the room."""
        assert sequence.place is not None, "it is under way"
        del self._choosers[sequence.place]
        self._keys.leave(sequence.place, sequence.tokens[: sequence.computed])

    def _compute(self, parts: list[Part[None]], told: list[Told]) -> None:
        began = perf_counter()
        self._context.compute(_even([row for part in parts for row in _rows(part)]))
        going: list[tuple[Own, Choice]] = []
        row = -1
        for part in parts:
            row += part.rows
            part.sequence.computed = part.stop
            if part.goes_on:
                try:
                    going.append((part.sequence, self._choice(part.sequence, row)))
                except ShoalError as error:
                    told.append(self._fail(part.sequence, error))
        self._took(parts, perf_counter() - began)
        for sequence, choice in going:
            told += self._go_on(sequence, choice)

    def _choice(self, sequence: Own, row: int) -> Choice:
        """Its next token, by the logits of a row of the pass. Raises `InvalidRequest`, as `Sequence.allowed`."""
        assert sequence.place is not None, "it is under way"
        logits = self._context.logits(row)
        return self._choosers[sequence.place].choose(logits, sequence.allowed())


def _rows(part: Part[None]) -> list[Row]:
    sequence, last = part.sequence, part.stop - 1
    assert sequence.place is not None, "it is under way"
    return [
        Row(sequence.tokens[at], at, sequence.place, part.goes_on and at == last)
        for at in range(part.start, part.stop)
    ]


def _even(rows: list[Row]) -> list[Row]:
    """The rows, one of a prompt wanted too where that is quicker.

    Logits of an odd number of rows take longer than those of one more: 16 ms of 7 and 10 of 8, with 49,152
    of them each; but one row alone takes the least.
    """
    wanted = sum(row.wanted for row in rows)
    if wanted % 2 and wanted > 1:
        other = next((at for at, row in enumerate(rows) if not row.wanted), None)
        if other is not None:
            rows[other] = rows[other]._replace(wanted=True)
    return rows
