"""A model's weights as the library looks for them: links to its files, or copies with other names inside.

A class with a head stores its encoder under a prefix, which the library takes off for some families only.
Names stand in a file's header alone, and become shorter: it keeps its length, filled up with blanks as
the format allows, and no number moves (https://github.com/huggingface/safetensors#format).
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import msgspec

from shoal.catalog.safetensors import header
from shoal.errors import ModelLoadFailed

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def place(folder: Path, model: Path, prefixes: tuple[str, ...]) -> None:
    """Those of `model` into `folder`. Raises `ModelLoadFailed` naming the file, `OSError`."""
    if (model / _SINGLE).is_file():
        _place(folder / _SINGLE, (model / _SINGLE).resolve(), prefixes)
        return
    if not (model / _INDEX).is_file():
        raise ModelLoadFailed(f"{model} has neither {_SINGLE} nor {_INDEX}")
    try:
        index = msgspec.json.decode((model / _INDEX).read_bytes(), type=_Index).weight_map
    except msgspec.DecodeError as error:
        raise ModelLoadFailed(f"{model / _INDEX}: {error}") from None
    for name in sorted(set(index.values())):
        if Path(name).name != name:
            raise ModelLoadFailed(f"{model / _INDEX} names a file outside the folder: {name}")
        _place(folder / name, (model / name).resolve(), prefixes)
    renamed = _Index({_inside(name, prefixes): file for name, file in index.items()})
    (folder / _INDEX).write_bytes(msgspec.json.encode(renamed))


def _place(there: Path, file: Path, prefixes: tuple[str, ...]) -> None:
    stored = header(file) or {}  # of a damaged file the library says what is wrong
    names = {name: _inside(name, prefixes) for name in stored}
    if all(name == inside for name, inside in names.items()):
        there.symlink_to(file)
        return
    twice, count = Counter(names.values()).most_common(1)[0]
    if count > 1:
        raise ModelLoadFailed(
            f"{file} holds '{twice}' twice: with and without {' or '.join(prefixes)}"
        )
    shutil.copyfile(file, there)
    with there.open("r+b") as copy:
        length = int.from_bytes(copy.read(8), "little")
        text = msgspec.json.encode({names[name]: said for name, said in stored.items()})
        copy.write(text.ljust(length))


def _inside(name: str, prefixes: tuple[str, ...]) -> str:
    """A tensor's name in its encoder."""
    return next((name.removeprefix(own) for own in prefixes if name.startswith(own)), name)
