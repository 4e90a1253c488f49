"""Where the items of a command come from: arguments, lines of a file or stdin, JSON Lines, files.

Every line is a text, empty ones too, so that answers and lines stay aligned.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import msgspec

from shoal.errors import ConfigError
from shoal.spelling import nearest

STDIN = "-"


def gather(arguments: list[str], file: str | None, field: str | None) -> list[str]:
    """The texts, in order.

    Args:
        arguments: given on the command line; exclude a file.
        file: a path, or ``-`` for stdin, which is also read where nothing else is given.
        field: each line is a JSON object, with the text in this field.

    Raises:
        ConfigError: no texts, or two sources, or a file or line that cannot be read.
    """
    if arguments and (file or field):
        raise ConfigError("give texts on the command line or --file, not both")
    if arguments:
        return arguments
    if file is None and sys.stdin.isatty():
        raise ConfigError("no texts: give them as arguments, with --file, or through a pipe")
    lines = [line.rstrip("\n") for line in io.StringIO(_read(file or STDIN), newline=None)]
    name = "stdin" if file in (None, STDIN) else file
    if field is not None:
        kept = [(n, line) for n, line in enumerate(lines, 1) if line.strip()]
        lines = [_field(line, field, f"{name}:{n}") for n, line in kept]
    if not lines:
        raise ConfigError(f"no texts: {name} is empty; a text a line is read there")
    return lines


def gather_items(
    arguments: list[str], file: str | None, field: str | None, files: bool
) -> tuple[list[str], list[str | bytes]]:
    """What each item is called, and the items: texts as `gather` has them, or files.

    Args:
        files: the texts are paths. Of a folder, all files below it, by name, but hidden ones.

    Raises:
        ConfigError: as `gather`; or a path cannot be read, or a folder has no files.
    """
    given = gather(arguments, file, field)
    if not files:
        return given, list(given)
    paths = [path for name in given for path in _files_at(Path(name))]
    return [str(path) for path in paths], [_content(path) for path in paths]


def _files_at(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    below = [file for file in sorted(path.rglob("*")) if file.is_file()]
    found = [file for file in below if not _is_hidden(file.relative_to(path))]
    if not found:
        raise ConfigError(f"{path}: the folder has no files")
    return found


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _content(path: Path) -> str | bytes:
    """A file of text as a string, any other as bytes: images and sound have bytes of zero, a PDF may
    be letters from end to end."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; check the paths") from None
    if b"\0" in data or data.startswith(b"%PDF-"):
        return data
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data


def _read(name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror}; check --file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8 at byte {error.start}; convert it first") from None


def _field(line: str, field: str, where: str) -> str:
    try:
        document = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{where}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{where}: a JSON object is needed, not {type(document).__name__}")
    if field not in document:
        raise ConfigError(f"{where}: no field '{field}'{nearest(field, document)}; check --field")
    text = document[field]
    if not isinstance(text, str):
        raise ConfigError(f"{where}: field '{field}' is not a string")
    return text
