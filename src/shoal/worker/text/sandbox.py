"""Where chat templates run: Jinja's sandbox, as transformers sets it up, and with bounds.

A template comes with a model's files, so it is trusted no more than those: it reads no attribute of
Python's, changes nothing, and is ended when it takes too long or makes too long a text.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import wraps
from typing import Any, NoReturn

from jinja2 import Environment, nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

#: A conversation of a thousand messages takes 20 ms. The thread's own seconds: a busy machine is no
#: template's fault.
MOST_S = 2.0
#: Characters or entries that anything in a template may have: more than the longest prompt of any model.
MOST_LENGTH = 16 * 1024 * 1024
#: No template aligns columns; one with such a width makes a gigabyte out of nothing.
_MOST_WIDTH = 1000
_WIDE = re.compile(r"\d{4}|\*|\{[^{}]*\{")
#: Of texts: they fill up to any width.
_FILLING = frozenset(("ljust", "rjust", "center", "zfill", "expandtabs"))


class Sandbox(ImmutableSandboxedEnvironment):
    """One for all templates of a model, in any thread."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        self._clock = threading.local()
        self.filters = {name: _kept_short(made) for name, made in self.filters.items()}
        self.filters |= {"tojson": _to_json, "join": _join, "indent": _kept_short(_indent)}
        self.filters |= {"replace": _replace, "format": _format, "center": _center}
        self.globals |= {"raise_exception": _raise, "strftime_now": _strftime_now}

    def start(self) -> None:
        """A template begins, in this thread."""
        self._clock.end = time.thread_time() + MOST_S

    def tick(self) -> str:
        """Called in each round of a loop and with each call."""
        if time.thread_time() > getattr(self._clock, "end", float("inf")):
            raise SecurityError(f"it takes longer than {MOST_S:g} s")
        return ""

    def short(self, value: Any) -> Any:
        """What ``~`` made."""
        return _short(value)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        __self.tick()
        of = getattr(__obj, "__self__", None)
        if isinstance(of, str):
            _check_method(of, __obj.__name__, [*args, *kwargs.values()])
        return _short(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        self.tick()
        match operator:
            case "*":
                _check_product(left, right)
            case "**":
                _check_power(left, right)
            case "%" if isinstance(left, str):
                _check_widths(left)
        return _short(super().call_binop(context, operator, left, right))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        if isinstance(of := getattr(value, "__self__", None), str) and value.__name__ == "format":
            _check_widths(of)
        return super().wrap_str_format(value)

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        """Jinja's own hook between a template's tree and its code."""
        _Bounded(self).visit(source)
        return super()._generate(source, *args, **kwargs)


class _Bounded(NodeTransformer):
    """Each round of a loop looks at the clock; what ``~`` makes is looked at too."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(self._call("tick", [], node), lineno=node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return self._call("short", [node], node)

    def _call(self, name: str, given: list[nodes.Expr], at: nodes.Node) -> nodes.Call:
        called = nodes.Call(nodes.EnvironmentAttribute(name), given, [], None, None)
        called.set_lineno(at.lineno, override=True).set_environment(self._environment)
        return called


class _Generation(Extension):
    """``{% generation %}``: marks what training is for, and is nothing here."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def _short(value: Any) -> Any:
    if isinstance(value, str | list | tuple) and len(value) > MOST_LENGTH:
        raise SecurityError(f"it makes something longer than {MOST_LENGTH}")
    return value


def _kept_short(made: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(made)
    def kept(*args: Any, **kwargs: Any) -> Any:
        return _short(made(*args, **kwargs))

    return kept


def _check_method(of: str, name: str, given: Sequence[Any]) -> None:
    if name in _FILLING:
        raise SecurityError(f"{name} is not for chat templates")
    if name == "replace" and len(given) >= 2:
        _check_replace(of, given[0], given[1])
    elif name == "join" and given and isinstance(given[0], list | tuple):
        _check_sum(len(of) + len(part) for part in given[0] if isinstance(part, str))


def _check_product(left: Any, right: Any) -> None:
    for some, times in ((left, right), (right, left)):
        if isinstance(some, str | list | tuple) and isinstance(times, int):
            _check_sum((len(some) * times,))
    if isinstance(left, int) and isinstance(right, int):
        _check_sum((left.bit_length() + right.bit_length(),))


def _check_power(base: Any, exponent: Any) -> None:
    if isinstance(base, int) and isinstance(exponent, int):
        _check_sum((base.bit_length() * abs(exponent) * 1000,))


def _check_widths(form: str) -> None:
    if _WIDE.search(form):
        raise SecurityError(f"it formats with a width over {_MOST_WIDTH}")


def _check_replace(of: str, old: Any, new: Any) -> None:
    old, new = str(old), str(new)
    _check_sum((len(of), (of.count(old) if old else len(of) + 1) * len(new)))


def _check_sum(lengths: Iterable[int]) -> None:
    total = 0
    for length in lengths:
        total += length
        if total > MOST_LENGTH:
            raise SecurityError(f"it makes something longer than {MOST_LENGTH}")


def _join(value: Iterable[Any], d: str = "", attribute: str | None = None) -> str:
    parts = [str(part if attribute is None else part[attribute]) for part in value]
    _check_sum(len(d) + len(part) for part in parts)
    return str(d).join(parts)


def _indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    from jinja2.filters import do_indent

    if not isinstance(width, str) and width > _MOST_WIDTH:
        raise SecurityError(f"it indents by more than {_MOST_WIDTH}")
    return do_indent(text, width, first, blank)


def _center(text: str, width: int = 80) -> NoReturn:
    raise SecurityError("center is not for chat templates")


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    _check_replace(text, old, new)
    return str(text).replace(old, new, count)


def _format(form: str, *args: Any, **kwargs: Any) -> str:
    _check_widths(form)
    return str(form) % (kwargs or args)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own makes it safe for HTML, which no model was trained with."""
    if isinstance(indent, int) and indent > _MOST_WIDTH:
        raise SecurityError(f"it indents by more than {_MOST_WIDTH}")
    text = json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
    _check_sum((len(text),))
    return text


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)
