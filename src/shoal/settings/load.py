"""Fills a settings struct from layers: defaults, a TOML file, the environment, flags.

Pure: the CLI reads the environment and the file and hands them over as mappings. Later layers
win. A key that no struct knows is an error that names where it stands and the nearest known key.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from shoal.errors import ConfigError
from shoal.settings.common import CommonSettings
from shoal.settings.gateway import GatewaySettings
from shoal.settings.serve import ServeSettings
from shoal.settings.worker import RuntimeSettings, WorkerSettings
from shoal.spelling import nearest

ENV_PREFIX = "SHOAL_"

ALL: tuple[type[msgspec.Struct], ...] = (
    CommonSettings,
    GatewaySettings,
    WorkerSettings,
    RuntimeSettings,
    ServeSettings,
)

S = TypeVar("S", bound=msgspec.Struct)


def known_keys() -> set[str]:
    """Every setting of every process."""
    return {name for struct in ALL for name in struct.__struct_fields__}


def load(struct: type[S], layers: list[tuple[str, Mapping[str, Any]]]) -> S:
    """Fill `struct` from `layers`, (where it stands, values) each, weakest first.

    A key of another process's settings is allowed and ignored, so that one file or environment
    serves all processes. Strings are converted (``"8080"`` to a number, ``"a,b"`` to a list).

    Raises:
        ConfigError: an unknown key, a value of the wrong type or out of bounds, or none where one
            is needed.
    """
    hints = get_type_hints(struct, include_extras=True)
    given = _strongest(layers)
    values = {
        key: _converted(key, value, hints[key], where)
        for key, (value, where) in given.items()
        if key in hints
    }
    _check_given(struct, values)
    try:
        return msgspec.convert(values, struct, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"settings of {struct.__name__}: {error}") from None


def _strongest(layers: list[tuple[str, Mapping[str, Any]]]) -> dict[str, tuple[Any, str]]:
    """Key -> the value that wins, and where it stands. Raises `ConfigError` for unknown keys."""
    known = known_keys()
    given: dict[str, tuple[Any, str]] = {}
    for where, values in layers:
        for key, value in values.items():
            if key not in known:
                raise ConfigError(f"{where}: unknown setting '{key}'{nearest(key, known)}")
            if value is not None:
                given[key] = value, where
    return given


def _converted(key: str, value: Any, hint: Any, where: str) -> Any:
    if isinstance(value, str) and hint.__origin__ == list[str]:
        value = _listed(value)
    try:
        converted = msgspec.convert(value, hint, strict=False)
    except msgspec.ValidationError as error:
        told = _told(value, hint) or f"{error}{_choices(hint)}"
        raise ConfigError(f"{where}: setting '{key}': {told}") from None
    if isinstance(converted, float) and not math.isfinite(converted):
        raise ConfigError(f"{where}: setting '{key}' is {converted}: it must be a finite number")
    return converted


def _listed(text: str) -> Any:
    """The values of a list: between commas, or a JSON list of them."""
    if text.startswith("["):
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(text)
    return [part.strip() for part in text.split(",") if part.strip()]


def list_text(values: list[str]) -> str:
    """A list as text: with commas, or as JSON where a value has one."""
    plain = ",".join(values)
    return plain if _listed(plain) == values else msgspec.json.encode(values).decode()


#: What text must be to mean one of these.
_PLAIN = {int: "a whole number", float: "a number", bool: "true or false"}


def _told(value: Any, hint: Any) -> str:
    """Why text is none of what is wanted; empty for all else, such as a number out of bounds."""
    base = hint.__origin__
    if base not in _PLAIN or not isinstance(value, str):
        return ""
    try:
        msgspec.convert(value, base, strict=False)
    except msgspec.ValidationError:
        return f"'{value}' is not {_PLAIN[base]}"
    return ""


def _choices(hint: Any) -> str:
    """What a setting of few values may be; empty for all others."""
    values = get_args(hint.__origin__) if get_origin(hint.__origin__) is Literal else ()
    return f"; use one of {', '.join(values)}" if values else ""


def _check_given(struct: type[msgspec.Struct], given: Mapping[str, Any]) -> None:
    needed = [field.name for field in msgspec.structs.fields(struct) if field.required]
    missing = [name for name in needed if name not in given]
    if missing:
        ways = [f"'{n}' (--{n.replace('_', '-')} or {ENV_PREFIX}{n.upper()})" for n in missing]
        raise ConfigError(f"settings that are needed and not given: {', '.join(ways)}")


def from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The ``SHOAL_*`` variables as a layer for `load`."""
    return {
        key.removeprefix(ENV_PREFIX).lower(): value
        for key, value in environ.items()
        if key.startswith(ENV_PREFIX)
    }
