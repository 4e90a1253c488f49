"""`shoal doctor`: every check there is, one line each, and what to do about what is wrong."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import checks, runtime_checks
from shoal.cli.asking import BROKER
from shoal.cli.context import Given, state_dir
from shoal.cli.finding import Check, Finding, attempt
from shoal.cli.flags import takes
from shoal.cli.models import CATALOG
from shoal.cli.output import AsJson, print_json
from shoal.settings import GatewaySettings, WorkerSettings

Models = Annotated[
    list[str] | None,
    typer.Argument(help="As `shoal serve` takes them.", show_default=False),
]
_MARK = {"ok": "[green]ok  [/]", "warn": "[yellow]warn[/]", "fail": "[red]fail[/]"}


#: What `shoal serve` is told that can be checked before it runs.
CHECKED = (*BROKER, "broker_binary", "store_dir", *CATALOG, "host", "port")


@takes(GatewaySettings, only=CHECKED)
def doctor(given: Given, models: Models = None, as_json: AsJson = False) -> None:
    """Check broker, models, ports, runtimes, disk and memory, and say what to do.

    Give it what `shoal serve` is given. Exit code 1 if something fails.
    """
    given = given.naming(models)
    settings, worker = given.load(GatewaySettings), given.load(WorkerSettings)
    findings = []
    for name, check in _checks(settings, worker):
        findings.append(attempt(name, check))
        if not as_json:
            _show(findings[-1])
    if as_json:
        print_json(findings)
    if any(finding.verdict == "fail" for finding in findings):
        raise typer.Exit(1)


def _checks(settings: GatewaySettings, worker: WorkerSettings) -> list[tuple[str, Check]]:
    from shoal.catalog import cache
    from shoal.cli import broker_checks

    store = Path(settings.store_dir).expanduser() if settings.store_dir else state_dir()
    brokers: list[tuple[str, Check]] = (
        [("broker", lambda: asyncio.run(broker_checks.reachable(settings)))]
        if settings.broker_url
        else [("broker", lambda: asyncio.run(broker_checks.starts(settings)))]
    )
    return [
        ("python", checks.python),
        *brokers,
        *runtime_checks.kinds(),
        ("tokenizers", checks.tokenizers),
        ("media", checks.media),
        ("catalog", partial(checks.catalog, settings)),
        ("models", partial(checks.models, worker)),
        ("runs", partial(runtime_checks.runs, worker)),
        ("port", partial(checks.port, settings)),
        ("cache", partial(checks.disk, "cache", cache.root(settings.cache_dir))),
        ("store", partial(checks.disk, "store", store)),
        ("memory", checks.memory),
    ]


def _show(finding: Finding) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    console.print(
        f"{_MARK[finding.verdict]} {finding.check:<11} {escape(finding.seen)}", soft_wrap=True
    )
    if finding.todo:
        console.print(f"     {'':<11} → {escape(finding.todo)}", soft_wrap=True)
