"""Where the texts of a command come from: arguments, lines of a file or stdin, JSON Lines.

Every line is a text, empty ones too, so that answers and lines stay aligned.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import msgspec

from shoal.errors import ConfigError, nearest

STDIN = "-"


def gather(arguments: list[str], file: str | None, field: str | None) -> list[str]:
    """The texts, in order.

    Args:
        arguments: given on the command line; exclude a file.
        file: a path, or ``-`` for stdin, which is also read where nothing else is given.
        field: each line is a JSON object, with the text in this field.

    Raises:
        ConfigError: no texts or two sources, or a file or line that cannot be read.
    """
    if arguments and (file or field):
        raise ConfigError("give texts on the command line or --file, not both")
    if arguments:
        return arguments
    if file is None and sys.stdin.isatty():
        raise ConfigError("no texts: give them as arguments, with --file, or through a pipe")
    name = file or STDIN
    lines = [line.rstrip("\n") for line in io.StringIO(_read(name), newline=None)]
    if field is None:
        return lines
    name = "stdin" if name == STDIN else name
    return [_field(line, field, f"{name}:{n}") for n, line in enumerate(lines, 1) if line.strip()]


def read_files(paths: list[str]) -> list[bytes]:
    """The bytes of each file. Raises `ConfigError` naming one that cannot be read."""
    try:
        return [Path(path).read_bytes() for path in paths]
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}; check the paths") from None


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
