"""Forms with files in them: ``multipart/form-data``, as RFC 7578 has it and clients send it.

Decides which bodies are malformed. Strict: no preamble, no nesting, no transfer encodings, which
no client sends. Files are views of the body; a body of any size is searched piece by piece.
"""

from __future__ import annotations

import asyncio
import re

import msgspec

from shoal.errors import InvalidRequest, UnsupportedMediaType
from shoal.wire.codec import Buffer

FORM = b"multipart/form-data"
#: A form has a dozen fields; each needs a header of some 100 bytes.
PARTS_MOST, HEAD_MOST_BYTES = 64, 8 * 1024
#: Searched in one go, some 0.2 ms.
_STEP_BYTES = 1 << 20

_BOUNDARY = re.compile(rb'boundary=(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)
_DISPOSITION = re.compile(rb"content-disposition:[ \t]*form-data[ \t]*(;.*)", re.IGNORECASE)
_PARAMETER = re.compile(rb';[ \t]*(name|filename)="((?:[^"\\]|\\.)*)"', re.IGNORECASE)
_ESCAPED = re.compile(r"\\(.)|%(0D|0A|22)", re.IGNORECASE)


class Field(msgspec.Struct, frozen=True):
    """One field of a form.

    Attributes:
        filename: of a field that is a file.
        data: a view of the body.
    """

    name: str
    filename: str | None
    data: memoryview

    @property
    def text(self) -> str:
        """Raises `InvalidRequest`: it is no UTF-8."""
        try:
            return str(self.data, "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRequest(
                f"{self.name} is not valid UTF-8: {error.reason}", param=self.name
            ) from None


async def read_form(body: Buffer, content_type: bytes) -> list[Field]:
    """The fields of a form, in order.

    Raises:
        UnsupportedMediaType: the type is another, or names no boundary.
        InvalidRequest: the body is not such a form.
    """
    if content_type.partition(b";")[0].strip().lower() != FORM:
        raise UnsupportedMediaType(
            "this route takes a form with a file: multipart/form-data", param="Content-Type"
        )
    named = _BOUNDARY.search(content_type)
    if named is None:
        raise UnsupportedMediaType("multipart/form-data without a boundary", param="Content-Type")
    return await _fields(memoryview(body), b"--" + (named[1] or named[2]))


async def _fields(body: memoryview, delimiter: bytes) -> list[Field]:
    at = len(delimiter)
    if bytes(body[:at]) != delimiter:
        raise _malformed("it does not begin with its boundary")
    fields: list[Field] = []
    while bytes(body[at : at + 2]) != b"--":
        if bytes(body[at : at + 2]) != b"\r\n":
            raise _malformed("a boundary is not at the end of its line")
        if len(fields) == PARTS_MOST:
            raise _malformed(f"it has more than {PARTS_MOST} parts")
        head_end = bytes(body[at : at + HEAD_MOST_BYTES]).find(b"\r\n\r\n")
        if head_end < 0:
            raise _malformed(f"part {len(fields)} has no end of its headers")
        start = at + head_end + 4
        end = await _find(body, b"\r\n" + delimiter, start)
        name, filename = _named(bytes(body[at + 2 : at + head_end]), len(fields))
        fields.append(Field(name, filename, body[start:end]))
        at = end + 2 + len(delimiter)
    return fields


async def _find(body: memoryview, needle: bytes, start: int) -> int:
    while start < len(body):
        found = bytes(body[start : start + _STEP_BYTES + len(needle)]).find(needle)
        if found >= 0:
            return start + found
        start += _STEP_BYTES
        await asyncio.sleep(0)
    raise _malformed("its last boundary is missing: the body was cut off")


def _named(head: bytes, number: int) -> tuple[str, str | None]:
    for line in head.split(b"\r\n"):
        if disposition := _DISPOSITION.fullmatch(line):
            found = {key.lower(): value for key, value in _PARAMETER.findall(disposition[1])}
            if b"name" in found:
                filename = found.get(b"filename")
                return _plain(found[b"name"]), None if filename is None else _plain(filename)
    raise _malformed(f"part {number} has no name")


def _plain(quoted: bytes) -> str:
    """Browsers write a quote as %22, other clients as a backslash and a quote."""
    codes = {"0D": "\r", "0A": "\n", "22": '"'}
    text = quoted.decode("utf-8", "replace")
    return _ESCAPED.sub(lambda match: match[1] or codes[match[2].upper()], text)


def _malformed(why: str) -> InvalidRequest:
    return InvalidRequest(f"the body is not a valid form: {why}")
