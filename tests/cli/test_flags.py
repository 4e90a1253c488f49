from typing import Annotated

import typer
from typer.testing import CliRunner

from shoal.cli.context import Given
from shoal.cli.flags import takes
from shoal.settings import GatewaySettings, WorkerSettings

app = typer.Typer()
seen: list[tuple[Given, list[str]]] = []


@app.command()
@takes(GatewaySettings, WorkerSettings)
def command(given: Given, models: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Try it."""
    seen.append((given, models or []))


def run(*args: str) -> tuple[Given, list[str]]:
    result = CliRunner().invoke(app, list(args))
    assert result.exit_code == 0, result.output
    return seen.pop()


def test_every_setting_has_a_flag() -> None:
    page = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    for struct in (GatewaySettings, WorkerSettings):
        for name in struct.__struct_fields__:
            if name != "models":  # the command's own argument
                assert f"--{name.replace('_', '-')}" in page
    assert "default 8080" in page
    assert "SHOAL_BROKER_URL for --broker-url" in page


def test_only_what_was_said_is_a_flag() -> None:
    given, models = run()
    assert given == Given()
    assert models == []


def test_flags_become_settings() -> None:
    given, models = run("--port", "9", "--lanes", "cpu,cpu", "--no-on-demand", "a", "b")
    assert models == ["a", "b"]
    assert given.flags == {"port": "9", "lanes": "cpu,cpu", "on_demand": False}
    assert given.load(GatewaySettings).port == 9
    worker = given.load(WorkerSettings)
    assert (worker.lanes, worker.on_demand) == (["cpu", "cpu"], False)


def test_a_list_may_be_given_with_commas_or_by_repeating_its_flag() -> None:
    given, _ = run("--catalog", "a.yaml", "--catalog", "b.yaml,c.yaml")
    assert given.load(GatewaySettings).catalog == ["a.yaml", "b.yaml", "c.yaml"]
