"""`shoal runtime` runs one; `shoal runtime check` tells whether one does what every runtime must.

What is checked, and how, is the business of `runtimes.check`.
"""

from __future__ import annotations

import shlex
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from shoal.cli.context import Given
from shoal.cli.flags import takes
from shoal.cli.models import CATALOG
from shoal.cli.output import AsJson, print_json
from shoal.errors import ConfigError
from shoal.settings import CommonSettings, RuntimeSettings, WorkerSettings
from shoal.spelling import nearest

if TYPE_CHECKING:
    from rich.console import Console

    from shoal.runtimes.check.sample import Sample
    from shoal.runtimes.check.subject import Subject
    from shoal.runtimes.check.suite import Result

app = typer.Typer(invoke_without_command=True)

_COLOUR: dict[str, str] = {"passed": "green", "failed": "red", "not applicable": "dim"}
#: How far numbers of a real model may be apart from batch to batch, where nothing else is said.
TOLERANCE = 1e-3


class Kind(msgspec.Struct, frozen=True):
    """A kind that comes with Shoal. `missing`: what to install; `tried`: it has a model to try."""

    kind: str
    missing: str | None
    tried: bool


@app.callback()
@takes(RuntimeSettings)
def runtime(given: Given, context: typer.Context) -> None:
    """Hold models on one device and compute; the worker starts this by itself.

    shoal runtime check KIND   whether a runtime, of ours or of yours, does what it must
    """
    if context.invoked_subcommand is None:
        from shoal.runtimes.serve import run

        run(given.load(RuntimeSettings))


@app.command()
@takes(CommonSettings, only=CATALOG)
def check(
    given: Given,
    kind: Annotated[
        str | None, typer.Argument(metavar="[KIND]", help="Of Shoal's, or what you call yours.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Try it with this model: a name, or a folder. Else a small one is made."),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(help="What starts a runtime of yours; `socket=PATH` and more are added."),
    ] = None,
    device: Annotated[str, typer.Option(help="As its workers would say.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="Of a batch.")] = 1,
    limit_s: Annotated[
        float, typer.Option("--limit-s", min=0.1, help="Most that one check may take.")
    ] = 60.0,
    tolerance: Annotated[
        float,
        typer.Option(min=0, help="How far an item's numbers may be apart from batch to batch."),
    ] = TOLERANCE,
    as_json: AsJson = False,
) -> None:
    """Check that a runtime does what every runtime must; without KIND, list those there are.

      shoal runtime check torch
      shoal runtime check torch --model all-MiniLM-L6-v2
      shoal runtime check mine --command './my-runtime --fast' --model ./my-model

    Exit code 1 if a check failed.
    """
    from shoal.runtimes.check.samples import SAMPLES
    from shoal.runtimes.check.subject import Subject
    from shoal.runtimes.serve import KINDS
    from shoal.runtimes.spec import COMMAND, RuntimeSpec

    if kind is None:
        _list_kinds(as_json)
        return
    if kind not in KINDS and command is None:
        raise ConfigError(
            f"there is no runtime '{kind}'{nearest(kind, KINDS)}; give one of {', '.join(KINDS)}, or "
            "--command with what starts yours"
        )
    line = COMMAND if command is None else tuple(shlex.split(command))
    subject = Subject(RuntimeSpec(kind, device, threads, line), limit_s)
    with tempfile.TemporaryDirectory(prefix="shoal-check-") as folder:
        try:
            if model is not None:
                sample = _sample(subject, model, given.load(WorkerSettings))
                subject.try_with(msgspec.structs.replace(sample, tolerance=tolerance))
            elif kind in SAMPLES:
                subject.try_with(SAMPLES[kind](Path(folder)))
            results = _performed(subject, as_json)
        finally:
            subject.discard()
    if any(result.verdict == "failed" for result in results):
        raise typer.Exit(1)


def _sample(subject: Subject, model: str, settings: WorkerSettings) -> Sample:
    from shoal.catalog.infer import card_for
    from shoal.catalog.resolve import Catalog
    from shoal.cli.models import progress
    from shoal.cli.prepare import fetch_named
    from shoal.cli.tried import profile_for, sample_of

    catalog = Catalog.load(settings.catalog)
    card = card_for(model, catalog, cache_dir=settings.cache_dir, offline=settings.offline)
    with progress() as bar:
        folder = fetch_named(card, settings, bar)
    profile = profile_for(card, subject.spec.kind)
    return sample_of(card, folder, profile, subject.capabilities.inputs, settings)


def _performed(subject: Subject, as_json: bool) -> list[Result]:
    """All checks, each told as soon as it is done."""
    from rich.console import Console

    from shoal.runtimes.check.suite import performed

    results: list[Result] = []
    console = Console(highlight=False)
    with console.status("hello …") if console.is_terminal and not as_json else nullcontext():
        for result in performed(subject):
            results.append(result)
            if not as_json:
                _show(console, result)
    if as_json:
        print_json(results)
    else:
        counts = {verdict: sum(r.verdict == verdict for r in results) for verdict in _COLOUR}
        console.print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return results


def _show(console: Console, result: Result) -> None:
    from rich.markup import escape

    verdict = f"[{_COLOUR[result.verdict]}]{result.verdict:<14}[/]"
    line = f"{verdict} {result.check:<34} {result.seconds:6.2f} s"
    console.print(f"{line}  {escape(result.why)}".rstrip(), soft_wrap=True)


def _list_kinds(as_json: bool) -> None:
    from shoal.runtimes.check.samples import SAMPLES
    from shoal.runtimes.packages import missing
    from shoal.runtimes.serve import KINDS

    kinds = [Kind(kind, missing(kind), kind in SAMPLES) for kind in KINDS]
    if as_json:
        print_json(kinds)
        return
    for kind in kinds:
        model = "tried with a small model" if kind.tried else "needs --model"
        typer.echo(f"{kind.kind:<8} {kind.missing or 'installed'}; {model}")
