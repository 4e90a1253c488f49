"""`docs/protocol.md` names every message and its fields as the code has them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from shoal.wire import queue as q
from shoal.wire import socket as m

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
ROW = re.compile(r"^\| `([a-z-]+)` \| (.*?) ?\| .*\|$", re.MULTILINE)
FIELD = re.compile(r"`(\w+)`( = )?")


def rows() -> dict[str, list[tuple[str, bool]]]:
    """Tag -> its fields, each with whether it may be left out."""
    return {
        tag: [(name, bool(default)) for name, default in FIELD.findall(fields)]
        for tag, fields in ROW.findall(PAGE.read_text())
    }


CLASSES: dict[str, Any] = {
    cls.__struct_config__.tag: cls
    for union in (q.QueueMessage, m.ToRuntime, m.FromRuntime)
    for cls in get_args(union)
}


def test_every_message_has_a_row_and_no_row_is_made_up() -> None:
    assert set(rows()) == set(CLASSES)


@pytest.mark.parametrize("tag", CLASSES)
def test_the_row_has_the_fields_in_their_order(tag: str) -> None:
    fields = msgspec.structs.fields(CLASSES[tag])
    assert rows()[tag] == [(field.name, not field.required) for field in fields]
