"""Where chat templates run: Jinja's sandbox, as transformers sets it up, and with bounds.

A template comes with a model's files, so it is trusted no more than those: it reads no attribute of
Python's, changes nothing, and is ended when it takes too long or makes too long a text.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from jinja2 import Environment, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from shoal.worker.text.bounds import (
    ENTRY,
    FILTERS,
    GLOBALS,
    MOST_LENGTH,
    check_filled,
    check_method,
    check_power,
    check_product,
    check_sum,
    short,
    weight,
)

#: A conversation of a thousand messages takes 20 ms. The thread's own seconds: a busy machine is no
#: template's fault.
MOST_S = 2.0
#: All that is written, also into what is written again: a macro's text is, once or twice.
_MOST_WRITTEN = 4 * MOST_LENGTH


class Sandbox(ImmutableSandboxedEnvironment):
    """One for all templates of a model, in any thread."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        self._clock = threading.local()
        self.finalize = self._written
        made = {name: self._kept_short(made) for name, made in (self.filters | FILTERS).items()}
        self.filters = made
        self.globals |= GLOBALS
        del self.globals["lipsum"]

    def start(self) -> None:
        """A template begins, in this thread."""
        self._clock.end = time.thread_time() + MOST_S
        self._clock.written = 0

    def tick(self) -> str:
        """Called in each round of a loop and with each call."""
        if time.thread_time() > getattr(self._clock, "end", float("inf")):
            raise SecurityError(f"it takes longer than {MOST_S:g} s")
        return ""

    def short(self, value: Any) -> Any:
        """What ``~``, ``[]`` or ``{}`` made."""
        return short(value)

    def wrote(self, length: int) -> str:
        """So much of the template's own text was written, or of what it made."""
        self._clock.written = written = getattr(self._clock, "written", 0) + length
        if written > _MOST_WRITTEN:
            raise SecurityError(f"it writes more than {_MOST_WRITTEN} characters")
        return ""

    @pass_context  # so that none of it is found out when the template is read, and not counted
    def _written(__self, __context: Context, __value: Any) -> Any:  # noqa: N805
        __self.wrote(len(__value) if isinstance(__value, str) else weight(__value))
        return __value

    def _kept_short(self, made: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(made)
        def kept(*args: Any, **kwargs: Any) -> Any:
            self.tick()
            return short(made(*map(self._listed, args), **kwargs))

        return kept

    def _listed(self, value: Any) -> Any:
        """What comes one by one as a list: so it is looked at before it is used."""
        if not isinstance(value, Iterator):
            return value
        entries, total = [], 0
        for entry in value:
            self.tick()
            entries.append(entry)
            total += ENTRY + weight(entry)
            check_sum((total,))
        return entries

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        __self.tick()
        of = getattr(__obj, "__self__", None)
        if isinstance(of, str | int | float):
            args = tuple(map(__self._listed, args))
            check_method(of, __obj.__name__, [*args, *kwargs.values()])
        return short(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        self.tick()
        match operator:
            case "*":
                check_product(left, right)
            case "**":
                check_power(left, right)
            case "%" if isinstance(left, str):
                check_filled(left, "%", [right])
        return short(super().call_binop(context, operator, left, right))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        made = super().wrap_str_format(value)
        if made is None:
            return None

        def filled(*args: Any, **kwargs: Any) -> str:
            check_filled(value.__self__, "{", [*args, *kwargs.values()])
            return made(*args, **kwargs)

        return filled

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        """Jinja's own hook between a template's tree and its code."""
        _Bounded(self).visit(source)
        return super()._generate(source, *args, **kwargs)


class _Bounded(NodeTransformer):
    """Each round of a loop looks at the clock; what is written and what is made of parts is looked at."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(self._call("tick", [], node), lineno=node.lineno))
        return node

    def visit_Concat(self, node: nodes.Expr) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return self._call("short", [node], node)

    visit_List = visit_Dict = visit_Concat  # noqa: N815

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return self._call("short", [node], node) if node.ctx == "load" else node

    def visit_Output(self, node: nodes.Output) -> nodes.Output:  # noqa: N802
        self.generic_visit(node)
        length = sum(len(own.data) for own in node.nodes if isinstance(own, nodes.TemplateData))
        if length:
            node.nodes.append(self._call("wrote", [nodes.Const(length)], node))
        return node

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
