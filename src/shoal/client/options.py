"""What a caller gave by keyword, against what a task takes: of other types is an error that names it.

Knows the types of parameters alone; whether a model takes a value is the gateway's to say.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, get_args, get_origin

import msgspec
import numpy as np

from shoal.errors import InvalidRequest
from shoal.spelling import nearest


def taken(options: dict[str, Any], struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Take the fields of `struct` out of `options`; those that are None are unset.

    Raises `InvalidRequest` for one that is of another type; its `param` is the name.
    """
    fields = [field for field in msgspec.structs.fields(struct) if field.name in options]
    given = [(field, options.pop(field.name)) for field in fields]
    return {f.name: _checked(f.name, v, f.type) for f, v in given if v is not None}


def none_left(options: dict[str, Any], call: str, known: Collection[str]) -> None:
    """Raises `TypeError`, as Python does, for an argument that the call has not."""
    for name in options:
        raise TypeError(f"{call}() has no argument '{name}'{nearest(name, known)}")


def _checked(name: str, value: Any, type_: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    try:
        return msgspec.convert(value, type_)
    except (msgspec.ValidationError, OverflowError) as error:
        kind = str(error).partition(" - at")[0].replace("null", "None")
        choices = [
            one
            for of in (type_, *get_args(type_))
            if get_origin(of) is Literal
            for one in get_args(of)
        ]
        hint = f"; it can be {', '.join(choices)}" if choices else ""
        raise InvalidRequest(f"{name} is {_shown(value)}: {kind}{hint}", param=name) from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
