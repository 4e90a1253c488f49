"""Makes a flag of every setting, so that flags, variables and files never drift apart.

A command says which settings structs it takes; its `--help` is built from their descriptions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
import typer

from shoal.cli.context import Given
from shoal.settings import ENV_PREFIX, CommonSettings

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help=f"TOML file with settings. Variables win over it ({ENV_PREFIX}BROKER_URL for "
        "--broker-url, …), flags over both.",
    ),
]


def takes(
    *structs: type[msgspec.Struct], only: Collection[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a flag for every setting of `structs`, or for `only` those that it uses.

    The command receives them as its first argument, a `Given`; its other parameters stay
    ordinary typer ones and take the place of settings of the same name. Variables and files may
    name any setting, flag or none.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        taken = {parameter.name for parameter in own}
        settings = {
            name: parameter
            for name, parameter in _parameters(structs).items()
            if name not in taken and (only is None or name in only)
        }

        def run(**values: Any) -> None:
            flags = {name: values.pop(name) for name in settings}
            config = values.pop("config")
            set_flags = {
                name: ",".join(value) if isinstance(value, list) else value
                for name, value in flags.items()
                if value is not None and value != []
            }
            command(Given(set_flags, config), **values)

        config = inspect.Parameter(
            "config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Config
        )
        stand_for(command, run, [*own, *settings.values(), config])
        return run

    return decorate


def stand_for(
    command: Callable[..., None], run: Callable[..., None], parameters: list[inspect.Parameter]
) -> None:
    """Let `run` be the command of that name, with these parameters, by keyword."""
    named = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in named}
    run.__doc__, run.__name__ = command.__doc__, command.__name__


def _parameters(structs: tuple[type[msgspec.Struct], ...]) -> dict[str, inspect.Parameter]:
    made: dict[str, inspect.Parameter] = {}
    for struct in structs:
        hints = get_type_hints(struct, include_extras=True)
        for field in msgspec.structs.fields(struct):
            made.setdefault(field.name, _parameter(struct, field, hints[field.name]))
    return made


def _parameter(
    struct: type[msgspec.Struct], field: msgspec.structs.FieldInfo, hint: Any
) -> inspect.Parameter:
    base, *metas = get_args(hint)
    option = typer.Option(
        _names(field.name, base),
        help=f"{metas[0].description}{_default(field)}",
        metavar=_metavar(base),
        rich_help_panel=_panel(struct, field.name),
    )
    # A list may be given with commas, or by naming its flag again.
    flag_type: Any = list[str] if get_origin(base) is list else bool if base is bool else str
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[flag_type | None, option],
    )


def _names(name: str, base: Any) -> str:
    flag = name.replace("_", "-")
    return f"--{flag}/--no-{flag}" if base is bool else f"--{flag}"


def _metavar(base: Any) -> str | None:
    if get_origin(base) is list:
        return "A,B,…"
    return {int: "N", float: "X", bool: None}.get(base, "TEXT")


def _default(field: msgspec.structs.FieldInfo) -> str:
    # A switch is off unless it says otherwise; help pages take square brackets for markup.
    told = "" if field.default is False else default_text(field)
    return f" (default {told})" if told else ""


def default_text(field: msgspec.structs.FieldInfo) -> str:
    """The default as a person would type it; empty where there is none."""
    value = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    if value is msgspec.NODEFAULT or value is None or value == []:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, list) else str(value)


def _panel(struct: type[msgspec.Struct], name: str) -> str:
    if name.startswith("broker_") or name == "store_dir":
        return "Broker"
    if name in CommonSettings.__struct_fields__:
        return "Common"
    return struct.__name__.removesuffix("Settings")
