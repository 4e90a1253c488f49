"""What a command is told: flags over the environment over a TOML file over defaults.

The only module that reads the environment. It knows where things lie on this machine (the
state directory, the file of a running `shoal serve`); what a setting means is `shoal.settings`.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from shoal.errors import ConfigError
from shoal.settings import ENV_PREFIX, CommonSettings, from_environment, list_text, load

S = TypeVar("S", bound=msgspec.Struct)

#: Read by the command line itself and no setting of any process.
CLI_VARIABLES = {
    "config": "TOML file with settings, as `--config`.",
    "url": "Gateway that `shoal encode` and its like talk to; unset: the `shoal serve` of this machine, "
    "else `http://127.0.0.1:8080`.",
}
DEFAULT_URL = "http://127.0.0.1:8080"


class Given(msgspec.Struct, frozen=True):
    """What the caller of one command set by flags; the other layers are read when loading."""

    flags: dict[str, Any] = {}
    config: Path | None = None

    def naming(self, models: list[str] | None) -> Given:
        """The same with these models, if any, as its setting of that name."""
        if not models:
            return self
        return msgspec.structs.replace(self, flags={**self.flags, "models": models})

    def load(self, struct: type[S]) -> S:
        """Fill a settings struct. Raises `ConfigError` naming the flag, variable or file."""
        return load_settings(struct, self.flags, self.config)


def load_settings(
    struct: type[S],
    flags: Mapping[str, Any],
    config: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> S:
    """Fill `struct` from defaults < TOML file < ``SHOAL_*`` variables < flags.

    What ``XDG_CACHE_HOME`` says stands with the defaults.
    """
    variables = from_environment(environ)
    path = config or (Path(variables["config"]) if variables.get("config") else None)
    for name in CLI_VARIABLES:
        variables.pop(name, None)
    layers: list[tuple[str, Mapping[str, Any]]] = []
    if (base := environ.get("XDG_CACHE_HOME", "")) and Path(base).is_absolute():
        layers.append(("environment", {"cache_dir": str(Path(base) / "shoal")}))
    if path is not None:
        layers.append((str(path), read_toml(path)))
    layers.append((f"environment ({ENV_PREFIX}*)", variables))
    layers.append(("flags", flags))
    return load(struct, layers)


def read_toml(path: Path) -> dict[str, Any]:
    """A settings file. Raises `ConfigError` if it is missing or no TOML."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; check --config or SHOAL_CONFIG") from None
    except ValueError as error:  # TOMLDecodeError or bytes that are no UTF-8
        raise ConfigError(f"{path}: not a TOML file: {error}") from None


def child_environment(given: Given, settings: Mapping[str, Any]) -> dict[str, str]:
    """The environment under which a child process loads what this one loaded, plus `settings`.

    Settings go by environment and not by flags so that keys do not show in the process list.
    """
    variables = dict(os.environ)
    if given.config is not None:
        variables[f"{ENV_PREFIX}CONFIG"] = str(given.config.absolute())
    for key, value in {**given.flags, **settings}.items():
        if value is not None:
            text = list_text(value) if isinstance(value, list) else str(value)
            variables[ENV_PREFIX + key.upper()] = text
    return variables


def gateway_url(url: str | None) -> str:
    """The gateway to talk to: a flag, else ``SHOAL_URL``, else the one `shoal serve` runs here."""
    if url is None:
        url = os.environ.get(f"{ENV_PREFIX}URL")
    if url is None:
        running = _newest()
        url = DEFAULT_URL if running is None else running.url
    return url.rstrip("/")


def api_key() -> str | None:
    """The key that client commands send, from ``SHOAL_API_KEY``."""
    return os.environ.get(f"{ENV_PREFIX}API_KEY")


def state_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where `shoal serve` keeps streams, cards and its state files (XDG base directories)."""
    base = environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "shoal"


class Running(msgspec.Struct, frozen=True):
    """A `shoal serve` of this machine, as it describes itself in a state file."""

    pid: int
    url: str
    broker_url: str
    models: list[str] = []


def write_running(running: Running) -> Path:
    """Announce a `shoal serve`; the file is removed when it ends."""
    folder = state_dir() / "running"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{running.pid}.json"
    partial = path.with_suffix(".part")  # whoever reads half a file takes it for a dead one's
    partial.write_bytes(msgspec.json.encode(running))
    partial.chmod(0o600)
    return partial.replace(path)


def read_running() -> list[Running]:
    """Every `shoal serve` of this machine whose process lives, newest first.

    A file left by a killed one is deleted.
    """
    found: list[tuple[float, Running]] = []
    for path in (state_dir() / "running").glob("*.json"):
        try:
            running = msgspec.json.decode(path.read_bytes(), type=Running)
            os.kill(running.pid, 0)
            found.append((path.stat().st_mtime, running))
        except (OSError, msgspec.MsgspecError):
            path.unlink(missing_ok=True)
    return [running for _, running in sorted(found, key=lambda pair: -pair[0])]


def with_broker(settings: CommonSettings) -> CommonSettings:
    """`settings` that name a broker: if none was given, that of the `shoal serve` of this machine.

    Raises `ConfigError` if there is none.
    """
    if settings.broker_url:
        return settings
    running = _newest()
    if running is None:
        raise ConfigError(
            "no `shoal serve` runs on this machine; start one, or give --broker-url nats://host:4222"
        )
    return msgspec.structs.replace(settings, broker_url=running.broker_url)


def _newest() -> Running | None:
    """The `shoal serve` of this machine that began last; of others, how to ask them is told."""
    running = read_running()
    if len(running) > 1:
        print(f"asking the newest `shoal serve` here, {running[0].url}; others:", file=sys.stderr)
        for other in running[1:]:
            print(f"  --url {other.url}  --broker-url {other.broker_url}", file=sys.stderr)
    return running[0] if running else None


def serving_on(port: int) -> Running | None:
    """The `shoal serve` of this machine that answers at this port."""
    return next((one for one in read_running() if one.url.endswith(f":{port}")), None)
