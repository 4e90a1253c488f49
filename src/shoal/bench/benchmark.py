"""What a benchmark is to the command line: options, a way to measure, a way to show.

A command is made from it: a flag for every field of its plan that has a description, and `--quick`,
`--json` and `--plot` alike for all.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import typer

from shoal.bench import report
from shoal.bench.pictures import can_draw

Tell = Callable[[str], None]
P = TypeVar("P", bound=msgspec.Struct)
R = TypeVar("R", bound=report.Result)

_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_QUICK = Annotated[bool, typer.Option("--quick", help="A minute or so: does it work here?")]
_JSON = Annotated[Path | None, typer.Option("--json", help="Write every round there.")]
_PLOT = Annotated[Path | None, typer.Option("--plot", help="Draw a picture there.")]


def option(help_: str) -> msgspec.Meta:
    """What `Annotated` makes an option of a plan's field with. In lists, commas separate."""
    return msgspec.Meta(description=help_)


class Benchmark(msgspec.Struct, Generic[P, R], frozen=True):
    """One benchmark.

    Attributes:
        question: what it answers; the command's help.
        plan: its usual plan; flags change it.
        measure: `tell` hears how far it is.
        quick: the plan that `--quick` starts from.
        draw: writes a picture of a result, if it has one.
    """

    question: str
    plan: P
    measure: Callable[[P, Tell], R]
    table: Callable[[R], str]
    quick: P
    draw: Callable[[Path, R], None] | None = None

    def command(self) -> Callable[..., None]:
        """The command, as Typer wants it."""

        def run(*, quick: bool, json: Path | None, plot: Path | None = None, **given: Any) -> None:
            if plot is not None:
                can_draw()
            result = self.measure(self._plan(quick, given), _tell)
            report.show(result, self.table(result))
            if json is not None:
                report.write_json(json, result)
            if plot is not None and self.draw is not None:
                self.draw(plot, result)
            raise typer.Exit(1 if result.problems else 0)

        run.__signature__ = inspect.Signature(self._parameters())  # type: ignore[attr-defined]
        run.__doc__ = self.question
        return run

    def _plan(self, quick: bool, given: dict[str, Any]) -> P:
        """Raises `typer.BadParameter` for a value that a field does not take."""
        whole: dict[str, Any] = msgspec.to_builtins(self.quick if quick else self.plan)
        for name, value in given.items():
            if value is not None and value != []:
                whole[name] = ",".join(value).split(",") if _many(value) else value
        try:
            return msgspec.convert(whole, type(self.plan), strict=False)
        except msgspec.ValidationError as error:
            what, _, where = str(error).partition(" - at `$.")
            flag = where.partition("[")[0].rstrip("`").replace("_", "-")
            raise typer.BadParameter(what, param_hint=f"--{flag}") from None

    def _parameters(self) -> list[inspect.Parameter]:
        hints = get_type_hints(type(self.plan), include_extras=True)
        outputs = {"quick": (False, _QUICK), "json": (None, _JSON)}
        if self.draw is not None:
            outputs["plot"] = (None, _PLOT)
        return [
            *(
                self._parameter(field, hints[field.name])
                for field in msgspec.structs.fields(type(self.plan))
                if get_origin(hints[field.name]) is Annotated
            ),
            *(
                inspect.Parameter(name, _KEYWORD, default=default, annotation=annotation)
                for name, (default, annotation) in outputs.items()
            ),
        ]

    def _parameter(self, field: msgspec.structs.FieldInfo, hint: Any) -> inspect.Parameter:
        base, meta = get_args(hint)
        default = getattr(self.plan, field.name)
        shown = ",".join(map(str, default)) if _many(default) else default
        help_ = f"{meta.description} ({shown})" if shown not in ("", None) else meta.description
        flag = f"--{field.name.replace('_', '-')}"
        if base is bool:
            flag += f"/--no-{field.name.replace('_', '-')}"
        kind: Any = list[str] if _many(default) else base
        annotation = Annotated[kind | None, typer.Option(flag, help=help_, show_default=False)]
        return inspect.Parameter(field.name, _KEYWORD, default=None, annotation=annotation)


def _many(value: object) -> bool:
    return isinstance(value, list | tuple)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
