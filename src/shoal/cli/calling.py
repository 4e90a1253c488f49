"""What the commands that ask a model share: their options, the client, and how a call of theirs ends.

Decides which options those are, and the exit code; not what is asked.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_type_hints

import msgspec
import typer
from typer.models import ArgumentInfo

from shoal.cli.answers import tell_errors, write_lines
from shoal.cli.context import api_key, gateway_url
from shoal.cli.flags import stand_for
from shoal.cli.numbers import decimal, whole
from shoal.cli.texts import STDIN, gather_items
from shoal.errors import ConfigError, InvalidRequest

if TYPE_CHECKING:
    from shoal.client import Client
    from shoal.client.result import Told
    from shoal.client.turn import TurnOptions

R = TypeVar("R", bound="Told")
#: Writes what was told of items with these names.
Write = Callable[[R, list[str]], None]

#: A bar for what takes a moment only flickers.
BAR_ITEMS = 256

ModelName = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A model the gateway serves: `shoal models list`."),
]
Texts = Annotated[
    list[str] | None, typer.Argument(help="Texts; paths with --files; or use --file.")
]
File = Annotated[str | None, typer.Option("--file", "-f", help="A text per line; `-` for stdin.")]
Field = Annotated[
    str | None, typer.Option(help="Lines are JSON objects, with the text in this field.")
]
Files = Annotated[
    bool,
    typer.Option("--files", help="The arguments are paths: of texts, images, audio, folders."),
]
AsLines = Annotated[
    bool, typer.Option("--json", help="JSON Lines, an item each, with tokens and errors.")
]
Lines = Annotated[
    str | None, typer.Option("--output", "-o", help="Write `.jsonl`; `-` for stdout.")
]
Instruction = Annotated[
    str | None,
    typer.Option(help="What the texts are read for, of a model that takes an instruction."),
]
Truncate = Annotated[bool, typer.Option(help="Cut items that are too long, or let them fail.")]
Bulk = Annotated[
    bool, typer.Option("--bulk", help="Run in what interactive work leaves; raise --timeout.")
]
Priority = Annotated[
    int, typer.Option(parser=whole(-10, 10), help="Higher goes first among your own requests.")
]
Url = Annotated[
    str | None, typer.Option(help="The gateway; unset: the one running here. (SHOAL_URL)")
]
Key = Annotated[str | None, typer.Option("--api-key", help="Its key. (SHOAL_API_KEY)")]
Timeout = Annotated[
    float,
    typer.Option(parser=decimal(0.001), help="Most seconds for one request, its retries included."),
]


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """The options that every command has which asks a model."""

    file: File = None
    field: Field = None
    files: Files = False
    output: Lines = None
    as_json: AsLines = False
    bulk: Bulk = False
    priority: Priority = 0
    url: Url = None
    key: Key = None
    timeout: Timeout = 60.0

    @property
    def turn(self) -> TurnOptions:
        return {"bulk": self.bulk, "priority": self.priority}

    def gather(self, arguments: list[str] | None) -> tuple[list[str], list[str | bytes]]:
        """What each item is called, and the items; see `gather_items`."""
        return gather_items(arguments or [], self.file, self.field, self.files)

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        """One of the gateway named, or of that which runs here, that tells what it waits for.

        Raises `Unavailable` at once where that would be on this machine, and none is.
        """
        import httpx

        from shoal.cli.waiting import Waiting, check_listening
        from shoal.client import Client

        url = gateway_url(self.url)
        waiting = Waiting(url, self.timeout)
        with httpx.Client(event_hooks={"response": [waiting.answered]}) as http:
            client = Client(
                url,
                self.key or api_key(),
                timeout_s=self.timeout,
                http=http,
                on_retry=waiting.retried,
            )
            check_listening(url)
            with waiting:
                yield client

    def writer(self, show: Write[R], line: Callable[[R, int], dict[str, Any]]) -> Write[R]:
        """Writes JSON Lines where these are asked for, else what `show` does.

        Raises `ConfigError` for a file that is to be something else.
        """
        output = self.output
        if output is not None and output != STDIN and not output.endswith((".jsonl", ".json")):
            raise ConfigError(f"--output {output}: name it .jsonl")
        return self.lines(line) if self.as_json or output is not None else show

    def lines(self, line: Callable[[R, int], dict[str, Any]]) -> Write[R]:
        """Writes JSON Lines; `line` tells of the item in row so many of those that have an answer."""

        def write(told: R, names: list[str]) -> None:
            paths = names if self.files else []
            write_lines(self.output, told, lambda row: line(told, row), paths)

        return write

    def tell(self, told: R, names: list[str], write: Write[R]) -> None:
        """What failed, then all else. Raises `typer.Exit` of 1 if anything failed."""
        tell_errors(told, names if self.files else [])
        write(told, names)
        if told.errors:
            raise typer.Exit(1)


def asks(
    *, output: Any = Lines, timeout_s: float = 60.0
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of `Asking`, which it receives as its first argument.

    Of these, what is read and written stands before its own options, the others behind them.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        shared = _options(output, timeout_s)
        written = 1 + Asking.__struct_fields__.index("as_json")
        arguments = sum(map(_is_argument, own))

        def run(**values: Any) -> None:
            asking = Asking(**{option.name: values.pop(option.name) for option in shared})
            command(asking, **values)

        stand_for(
            command,
            run,
            [*own[:arguments], *shared[:written], *own[arguments:], *shared[written:]],
        )
        return run

    return decorate


def _options(output: Any, timeout_s: float) -> list[inspect.Parameter]:
    hints = get_type_hints(Asking, include_extras=True) | {"output": output}
    defaults = msgspec.structs.asdict(Asking(timeout=timeout_s))
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, kind, default=default, annotation=hints[name])
        for name, default in defaults.items()
    ]


def _is_argument(parameter: inspect.Parameter) -> bool:
    return any(isinstance(meta, ArgumentInfo) for meta in get_args(parameter.annotation))


def read_schema(path: Path | None) -> dict[str, Any] | None:
    """A JSON schema of a file's. Raises `InvalidRequest` for a file that is no JSON object."""
    import msgspec

    if path is None:
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidRequest(f"{path} is no JSON schema: {error}") from None


def shows_bar(items: int) -> bool:
    """Whether progress is worth a bar, and somebody sees it."""
    return items > BAR_ITEMS and sys.stderr.isatty()
