from __future__ import annotations

import random
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import InvalidRequest, UnsupportedMediaType
from shoal.gateway.compat import multipart
from shoal.gateway.compat.multipart import Field, read_form

TYPE = b"multipart/form-data; boundary=xyz"


def part(name: str, data: bytes, extra: str = "") -> bytes:
    head = f'Content-Disposition: form-data; name="{name}"{extra}'
    return b"--xyz\r\n" + head.encode() + b"\r\n\r\n" + data + b"\r\n"


async def read(body: bytes, type_: bytes = TYPE) -> list[Field]:
    return await read_form(memoryview(body), type_)


async def test_fields_and_files() -> None:
    sound = random.Random(1).randbytes(3_000_000)
    file = part("file", sound, '; filename="a.wav"\r\nContent-Type: audio/wav')
    fields = await read(part("model", b"whisper") + file + part("empty", b"") + b"--xyz--\r\n")
    assert [field.name for field in fields] == ["model", "file", "empty"]
    assert fields[0].text == "whisper"
    assert (fields[1].filename, bytes(fields[1].data)) == ("a.wav", sound)
    assert bytes(fields[2].data) == b""


@given(st.lists(st.tuples(st.text('ab"\\é%', min_size=1), st.binary()), min_size=1, max_size=4))
async def test_what_a_client_writes_is_read(pairs: list[tuple[str, bytes]]) -> None:
    files = [(name, (f"{name}.bin", data)) for name, data in pairs]
    request = httpx.Request("POST", "http://x", files=files)
    type_ = request.headers["content-type"].encode()
    fields = await read(request.read(), type_)
    assert [bytes(field.data) for field in fields] == [data for _, data in pairs]
    names = [name for name, _ in pairs if "\\" not in name and "%" not in name]
    assert [f.name for f in fields if "\\" not in f.name and "%" not in f.name] == names


@pytest.mark.parametrize("cut", [-10, -5, 30, 70])
async def test_a_boundary_across_two_pieces_is_found(
    cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = part("a", b"x" * 40 + b"\r\n--xy") + part("b", b"2") + b"--xyz--"
    monkeypatch.setattr(multipart, "_STEP_BYTES", 60 + cut if cut < 0 else cut)
    fields = await read(body)
    assert [bytes(field.data)[-6:] for field in fields] == [b"\r\n--xy", b"2"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "begin with its boundary"),
        (b"--xyy\r\n", "begin with its boundary"),
        (part("a", b"1"), "cut off"),
        (part("a", b"1")[:-2], "cut off"),
        (part("a", b"1") + b"--xyz", "end of its line"),
        (b"--xyz\r\nContent-Type: text/plain\r\n\r\n1\r\n--xyz--", "part 0 has no name"),
        (b'--xyz\r\nContent-Disposition: form-data; name="a"', "end of its headers"),
        (part("a", b"1") * 65 + b"--xyz--", "more than 64"),
        (b"--xyz\r\n" + b"x" * 9000 + part("a", b"1") + b"--xyz--", "end of its headers"),
    ],
)
async def test_what_is_no_form_is_refused(body: bytes, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        await read(body)


@pytest.mark.parametrize("type_", [b"application/json", b"multipart/form-data", b""])
async def test_what_says_that_it_is_no_form(type_: bytes) -> None:
    with pytest.raises(UnsupportedMediaType):
        await read(b"--xyz--", type_)


async def test_text_that_is_none() -> None:
    (field,) = await read(part("a", b"\xff") + b"--xyz--")
    with pytest.raises(InvalidRequest, match="UTF-8") as caught:
        str(field.text)
    assert caught.value.param == "a"


@given(st.binary(max_size=200))
async def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        fields: Any = await read(b"--xyz" + data)
    except InvalidRequest:
        return
    assert isinstance(fields, list)
