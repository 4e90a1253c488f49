from __future__ import annotations

import pytest

from shoal.catalog.convert.binary import Cursor


def test_numbers_and_texts_in_a_row() -> None:
    cursor = Cursor(memoryview(b"\x01\x02\x00\x00\x80\x3f\xc3\xbc!"))
    assert cursor.integer("B") == 1
    assert cursor.integer("B") == 2
    assert cursor.number("f") == 1.0
    assert cursor.text(2) == "ü"
    assert (cursor.at, bytes(cursor.bytes(1))) == (8, b"!")


@pytest.mark.parametrize("count", [2, 1 << 63, -1])
def test_a_file_that_ends_too_early(count: int) -> None:
    with pytest.raises(ValueError, match=r"byte 0: .* bytes are to follow, but the file ends"):
        Cursor(memoryview(b"x")).bytes(count)
    with pytest.raises(ValueError, match="byte 0: 4 bytes are to follow"):
        Cursor(memoryview(b"x")).integer("I")
