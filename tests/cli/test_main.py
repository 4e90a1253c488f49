import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from shoal import __version__
from shoal.cli.main import app


def shoal(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shoal", *args]
    env = {**os.environ, **environ}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def test_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"shoal {__version__}\n"


def test_help_of_every_command() -> None:
    for command in (
        "serve",
        "encode",
        "score",
        "extract",
        "gateway",
        "worker",
        "runtime",
        "models",
        "status",
        "doctor",
        "demo",
    ):
        result = CliRunner().invoke(app, [command, "--help"])
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    "command",
    ["status", "doctor", "dead list", "dead show", "dead replay", "dead drop", "models list"],
)
def test_help_of_a_command_that_only_looks_fits_a_screen(command: str) -> None:
    page = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "80"}).output
    assert len(page.splitlines()) <= 45
    if command.startswith(("status", "dead")):
        assert "--broker-url" in page
        assert "--payload-url" not in page


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys, shoal.cli.main\n"
        "heavy = {'numpy', 'torch', 'nats', 'httpx', 'tokenizers', 'uvicorn', 'huggingface_hub'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("args", "environ", "code", "told"),
    [
        (["gateway"], {"SHOAL_PROT": "1"}, 2, "unknown setting 'prot' (did you mean 'port'?)"),
        (["gateway", "--port", "x"], {}, 2, "flags: setting 'port': 'x' is not a whole number"),
        (["gateway", "--config", "/nowhere.toml"], {}, 2, "/nowhere.toml: No such file"),
        (["gateway", "--port", "0"], {}, 2, "broker_url is not set"),
        (["serve", "--port", "0", "--payload-url", "az://c"], {}, 2, "set AZURE_STORAGE_ACCOUNT_"),
        (["status", "--broker-url", "nats://127.0.0.1:9"], {}, 75, "cannot reach the broker"),
        (["runtime", "--kind", "trch", "--socket", "x"], {}, 2, "trch"),
    ],
)
def test_a_mistake_is_one_line_on_stderr(
    args: list[str], environ: dict[str, str], code: int, told: str
) -> None:
    done = shoal(*args, **environ)
    assert done.returncode == code, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert told in last
