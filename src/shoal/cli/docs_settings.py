"""Writes `docs/settings.md` from the settings structs: ``python -m shoal.cli.docs_settings PATH``.

A test fails when the file and the code part.
"""

from __future__ import annotations

from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from shoal.cli.context import CLI_VARIABLES
from shoal.cli.docs_path import path_of_page
from shoal.cli.docs_table import row
from shoal.cli.flags import default_text
from shoal.settings import ALL, ENV_PREFIX, CommonSettings

_HEAD = """# Settings

Written from the code by `make docs`; do not edit by hand.

Every setting can be given in four places. A later one wins:

1. its default below;
2. a TOML file, named by `--config` or `SHOAL_CONFIG`: `port = 9000`;
3. an environment variable, `SHOAL_` and the name in capitals: `SHOAL_PORT=9000`;
4. a flag, the name with dashes: `--port 9000`.

In variables and flags a list is written with commas: `--lanes cuda:0,cuda:1`; where a value has a
comma, as JSON: `--catalog '["a,b.yaml"]'`. One file or
environment may serve all processes: each takes what is its own. A name that no process knows is
an error that tells the nearest known one, so that a typing mistake never goes unseen. Switches
have a second flag that turns them off: `--no-offline`. A number is finite and in plain digits:
`2.5`, not `1_000`, `inf` or ` 10 `.
"""

_ABOUT = {
    "CommonSettings": ("Common", "Every process but `shoal runtime` takes these."),
    "GatewaySettings": ("Gateway", "`shoal gateway`, and `shoal serve` for the gateways it runs."),
    "WorkerSettings": ("Worker", "`shoal worker`, and `shoal serve` for the workers it runs."),
    "RuntimeSettings": ("Runtime", "`shoal runtime`. The worker starts it and sets all of these."),
    "ServeSettings": ("Serve", "`shoal serve`, beside all of the above."),
}


def render() -> str:
    """The whole page."""
    parts = [_HEAD, *(_section(struct) for struct in ALL), _cli_section()]
    return "\n".join(parts)


def _section(struct: type[msgspec.Struct]) -> str:
    title, about = _ABOUT[struct.__name__]
    hints = get_type_hints(struct, include_extras=True)
    rows = [
        _row(field, hints[field.name])
        for field in msgspec.structs.fields(struct)
        if struct is CommonSettings or field.name not in CommonSettings.__struct_fields__
    ]
    head = ["| setting | type | default | meaning |", "| --- | --- | --- | --- |"]
    return "\n".join([f"## {title}\n", f"{about}\n", *head, *rows, ""])


def _row(field: msgspec.structs.FieldInfo, hint: Any) -> str:
    base, meta = get_args(hint)[:2]
    default = default_text(field)
    shown = f"`{default}`" if default else ("required" if field.required else "–")
    meaning = " ".join([meta.description, *_bounds(meta)])
    return row(f"`{field.name}`", _type_name(base), shown, meaning)


def _type_name(base: Any) -> str:
    if get_origin(base) is list:
        return "list"
    names = {int: "integer", float: "number", bool: "true or false", str: "text"}
    return names.get(base, "text")


def _bounds(meta: msgspec.Meta) -> list[str]:
    signs = {"ge": "at least", "gt": "more than", "le": "at most"}
    bounds = [(sign, getattr(meta, name)) for name, sign in signs.items()]
    told = [f"{sign} {bound:g}" for sign, bound in bounds if bound is not None]
    return [f"({', '.join(told)})"] if told else []


def _cli_section() -> str:
    rows = [row(f"`{ENV_PREFIX}{name.upper()}`", text) for name, text in CLI_VARIABLES.items()]
    rows.append(row(f"`{ENV_PREFIX}API_KEY`", "Key that `shoal encode` and its like send."))
    head = "| variable | meaning |\n| --- | --- |"
    return "\n".join(["## Read by the command line alone\n", head, *rows, ""])


if __name__ == "__main__":
    path_of_page(__doc__).write_text(render())
