"""Reads the few pickles that hold nothing but tensors, without the module that runs pickles.

The opcodes are read one by one (`pickletools` only takes them apart) by a machine that knows plain
values, dicts, tuples and two calls by name: an empty OrderedDict, and a tensor over a storage.
Whatever else a pickle asks for is an error, and nothing of it is imported or called.
Source: https://github.com/pytorch/pytorch, `torch/serialization.py` and `torch/_utils.py`.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import IO, Any, Protocol, cast

import msgspec

_ORDERED_DICT = "collections OrderedDict"
_TENSOR = "torch._utils _rebuild_tensor_v2"
#: Opcodes that put their argument on the stack.
_VALUES = {
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE"),
    *("SHORT_BINUNICODE", "BINUNICODE8", "SHORT_BINSTRING", "BINSTRING"),
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class Stream(Protocol):
    """What a pickle is read from."""

    def read(self, count: int, /) -> bytes: ...

    def readline(self) -> bytes: ...


class Name(msgspec.Struct, frozen=True):
    """Something of a module, such as ``torch FloatStorage``: its name and nothing more."""

    name: str


class Storage(msgspec.Struct, frozen=True):
    """Numbers that lie elsewhere in the file."""

    kind: str
    key: str
    count: int


class View(msgspec.Struct, frozen=True):
    """A tensor: some numbers of a storage, from `start` on."""

    storage: Storage
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read(stream: Stream) -> Any:
    """The next pickle of `stream`, which is left behind it.

    Raises:
        ValueError: it is broken, or asks for anything else than tensors.
    """
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(cast(IO[bytes], stream)):
            if opcode.name == "STOP":
                return machine.pop()
            machine.step(opcode.name, argument)
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"a broken pickle: {error}") from None
    raise ValueError("a pickle that does not end")


class _Machine:
    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # the stacks before each mark that is open
        self._memo: dict[int, Any] = {}
        self._steps: dict[str, Callable[[Any], None]] = {
            "BINGET": lambda at: self._push(self._memo[at]),
            "LONG_BINGET": lambda at: self._push(self._memo[at]),
            "BINPUT": self._remember,
            "LONG_BINPUT": self._remember,
            "MEMOIZE": lambda _: self._remember(len(self._memo)),
            "GLOBAL": lambda name: self._push(Name(name)),
            "MARK": lambda _: self._mark(),
            "EMPTY_DICT": lambda _: self._push({}),
            "EMPTY_LIST": lambda _: self._push([]),
            "TUPLE": lambda _: self._push(tuple(self._marked())),
            "SETITEM": lambda _: self._set([self.pop(), self.pop()][::-1]),
            "SETITEMS": lambda _: self._set(self._marked()),
            "APPEND": lambda _: self._extend([self.pop()]),
            "APPENDS": lambda _: self._extend(self._marked()),
            "BINPERSID": lambda _: self._push(_storage(self.pop())),
            "REDUCE": lambda _: self._call(),
            "BUILD": lambda _: self._attributes(),
        }

    def pop(self) -> Any:
        return self._stack.pop()

    def step(self, name: str, argument: Any) -> None:
        if name in _VALUES:
            self._stack.append(argument)
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            self._stack[-_TUPLES[name] :] = [tuple(self._stack[-_TUPLES[name] :])]
        elif name in self._steps:
            self._steps[name](argument)
        elif name not in ("PROTO", "FRAME"):
            raise ValueError(f"its pickle asks for {name}, which no file of tensors needs")

    def _remember(self, at: int) -> None:
        self._memo[at] = self._stack[-1]

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _mark(self) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _marked(self) -> list[Any]:
        found, self._stack = self._stack, self._below.pop()
        return found

    def _set(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, dict):
            raise ValueError("its pickle sets an item of what is no dict")
        keys = items[::2]
        if not all(
            isinstance(key, str | int) for key in keys
        ):  # a tuple may be as deep as it likes
            raise ValueError("its pickle has a key that is neither a name nor a number")
        target.update(zip(keys, items[1::2], strict=True))

    def _extend(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, list):
            raise ValueError("its pickle appends to what is no list")
        target.extend(items)

    def _call(self) -> None:
        given, function = self.pop(), self.pop()
        if function == Name(_ORDERED_DICT) and given == ():
            self._stack.append({})
        elif function == Name(_TENSOR) and isinstance(given, tuple):
            storage, start, shape, strides = given[:4]
            self._stack.append(
                msgspec.convert(
                    {"storage": storage, "start": start, "shape": shape, "strides": strides}, View
                )
            )
        else:
            what = function.name if isinstance(function, Name) else "what is no function"
            raise ValueError(f"its pickle calls {what}, which no file of tensors needs")

    def _attributes(self) -> None:
        """Attributes of a dict: versions of modules, which are no tensors."""
        self.pop()
        if not isinstance(self._stack[-1], dict):
            raise ValueError("its pickle sets attributes of what is no dict")


def _storage(given: Any) -> Storage:
    what, kind, key, _, count = given[:5]
    if what != "storage" or not isinstance(kind, Name):
        raise ValueError("its pickle names something outside that is no storage")
    return Storage(kind.name, str(key), int(count))
