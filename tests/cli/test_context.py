import os
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.cli import context
from shoal.cli.context import Given, Running, child_environment, load_settings
from shoal.errors import ConfigError
from shoal.settings import CommonSettings, GatewaySettings, RuntimeSettings, WorkerSettings


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "shoal.toml"
    path.write_text('port = 1\nhost = "file"\npool = "file"\nlanes = ["cpu", "cpu"]\n')
    return path


def test_flags_win_over_environment_over_file_over_defaults(toml: Path) -> None:
    environ = {"SHOAL_PORT": "2", "SHOAL_HOST": "variable", "UNRELATED": "x"}
    settings = load_settings(GatewaySettings, {"port": "3"}, toml, environ)
    assert (settings.port, settings.host, settings.pool) == (3, "variable", "file")
    assert settings.unit_items == 64


def test_the_file_may_be_named_by_a_variable(toml: Path) -> None:
    settings = load_settings(WorkerSettings, {}, None, {"SHOAL_CONFIG": str(toml)})
    assert settings.lanes == ["cpu", "cpu"]


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({}, None),
        ({"XDG_CACHE_HOME": "/caches"}, "/caches/shoal"),
        ({"XDG_CACHE_HOME": "caches"}, None),  # the rule: only absolute paths count
        ({"XDG_CACHE_HOME": "/caches", "SHOAL_CACHE_DIR": "/mine"}, "/mine"),
    ],
)
def test_the_users_cache_directory_holds_models(
    environ: dict[str, str], folder: str | None
) -> None:
    assert load_settings(WorkerSettings, {}, None, environ).cache_dir == folder


def test_lists_come_with_commas() -> None:
    assert load_settings(WorkerSettings, {"lanes": "cpu, cuda:0"}, None, {}).lanes == [
        "cpu",
        "cuda:0",
    ]


def test_variables_of_the_command_line_are_no_settings() -> None:
    load_settings(GatewaySettings, {}, None, {"SHOAL_URL": "http://x"})


@pytest.mark.parametrize(
    ("flags", "environ", "told"),
    [
        ({}, {"SHOAL_PROT": "1"}, r"environment \(SHOAL_\*\): unknown setting 'prot'.*'port'"),
        ({}, {"SHOAL_PORT": "many"}, r"environment \(SHOAL_\*\): setting 'port'"),
        ({"port": "70000"}, {}, "flags: setting 'port': .*65535"),
    ],
)
def test_a_mistake_is_told_with_its_place(
    flags: dict[str, str], environ: dict[str, str], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        load_settings(GatewaySettings, flags, None, environ)


def test_a_choice_that_does_not_exist_is_told_with_those_that_do() -> None:
    with pytest.raises(ConfigError, match=r"'eviction': .* use one of gdsf, lru"):
        load_settings(WorkerSettings, {"eviction": "lfu"}, None, {})


def test_what_is_needed_and_not_given_is_told_with_how_to_give_it() -> None:
    with pytest.raises(ConfigError) as refused:
        load_settings(RuntimeSettings, {"kind": "fake"}, None, {})
    assert "'socket' (--socket or SHOAL_SOCKET)" in refused.value.message
    assert "kind" not in refused.value.message


def test_a_missing_or_broken_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: No such file.*--config"):
        load_settings(GatewaySettings, {}, tmp_path / "nowhere.toml", {})
    broken = tmp_path / "broken.toml"
    broken.write_text("port = ")
    with pytest.raises(ConfigError, match=r"broken\.toml: not a TOML file"):
        load_settings(GatewaySettings, {}, broken, {})


def test_a_child_loads_what_its_parent_loaded(toml: Path) -> None:
    given = Given({"api_key": "secret", "lanes": "cpu,cpu"}, toml)
    variables = child_environment(given, {"port": 9, "models": ["a", "b"], "offline": True})
    gateway = load_settings(GatewaySettings, {}, None, variables)
    assert (gateway.api_key, gateway.port, gateway.host) == ("secret", 9, "file")
    worker = load_settings(WorkerSettings, {}, None, variables)
    assert (worker.models, worker.lanes, worker.offline) == (["a", "b"], ["cpu", "cpu"], True)


def test_a_list_whose_values_have_commas_reaches_child_processes() -> None:
    for paths in (["/cards, mine/a.yaml", "/b"], ["/a", "/b"], [" a"], []):
        variables = child_environment(Given({}, None), {"catalog": paths})
        assert load_settings(WorkerSettings, {}, None, variables).catalog == paths


def test_a_running_serve_is_found_and_a_dead_one_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "state_dir", lambda: tmp_path)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    forgotten = context.write_running(Running(dead.pid, "http://dead", "nats://dead"))
    here = Running(os.getpid(), "http://127.0.0.1:9", "nats://127.0.0.1:8", ["m"])
    context.write_running(here)
    assert context.read_running() == [here]
    assert not forgotten.exists()
    monkeypatch.delenv("SHOAL_URL", raising=False)
    assert context.gateway_url(None) == "http://127.0.0.1:9"
    assert context.gateway_url("http://flag/") == "http://flag"


def test_the_broker_is_the_one_named_else_that_of_the_serve_that_runs_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "state_dir", lambda: tmp_path)
    named = CommonSettings(broker_url="nats://far:4222", pool="gpu")
    assert context.with_broker(named) == named
    with pytest.raises(ConfigError, match="--broker-url"):
        context.with_broker(CommonSettings())
    context.write_running(Running(os.getpid(), "http://here", "nats://here"))
    found = context.with_broker(CommonSettings(pool="gpu"))
    assert (found.broker_url, found.pool) == ("nats://here", "gpu")


def test_of_several_that_run_here_the_others_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(context, "state_dir", lambda: tmp_path)
    monkeypatch.delenv("SHOAL_URL", raising=False)
    first = context.write_running(Running(os.getppid(), "http://first:1", "nats://first"))
    os.utime(first, (1, 1))
    context.write_running(Running(os.getpid(), "http://last:2", "nats://last"))
    assert context.gateway_url(None) == "http://last:2"
    told = capsys.readouterr().err
    assert "http://last:2; others" in told
    assert "--url http://first:1  --broker-url nats://first" in told
    assert context.gateway_url("http://named") == "http://named"
    assert capsys.readouterr().err == ""
    found = [context.serving_on(port) for port in (1, 2, 3)]
    assert [one and one.pid for one in found] == [os.getppid(), os.getpid(), None]


def test_what_a_reader_has_open_stays_whole_while_it_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a file would be taken for a dead one's, and deleted."""
    monkeypatch.setattr(context, "state_dir", lambda: tmp_path)
    running = Running(os.getpid(), "http://here", "nats://here", ["m"])
    with context.write_running(running).open() as reader:
        context.write_running(Running(os.getpid(), "http://there", "nats://here"))
        assert "http://here" in reader.read()
