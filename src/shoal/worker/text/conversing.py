"""How one model holds conversations: its prompts, its tools, what of its text is told apart.

Decides from card and template in which form the model calls and where it thinks. It must not know tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from shoal.catalog.card import Card
from shoal.errors import InvalidRequest
from shoal.tasks.generate.answer import Answer
from shoal.tasks.generate.conversation import Conversation
from shoal.tasks.generate.reasoning import Reasoned
from shoal.tasks.generate.tagged import CLOSE, OPEN
from shoal.tasks.generate.tools import (
    Tool,
    answer_of,
    chosen,
    forced,
    form_in,
    has_place,
    written_out,
)
from shoal.values import GenerateParams
from shoal.worker.text.template import ChatTemplate

#: What templates of models that reason write around it (DeepSeek-R1, Qwen3, SmolLM3).
_THINK = ("<think>", "</think>")


class Asked(msgspec.Struct, frozen=True):
    """What is asked of all conversations of a unit.

    Attributes:
        render: a conversation's prompt. Raises `InvalidItem`.
        answer: given the prompt, how its text is told apart.
        grammar: of what the text must be: the caller's, or of a call that must be made.
    """

    render: Callable[[Conversation], str]
    answer: Callable[[str], Callable[[], Answer]]
    grammar: tuple[str, str] | None


class Conversing:
    """What card and template say.

    Attributes:
        marks: what stands around the parts that are told apart; if they are special tokens, they are
            read with the text all the same.
    """

    def __init__(self, card: Card, template: ChatTemplate) -> None:
        task = card.tasks.generate
        assert task is not None, "the card says `generate`"
        self._name = card.name
        self._template = template
        self._form = task.tools or form_in(template.source)
        self._has_place = has_place(template.source)
        self._tags = task.reasoning or (_THINK if _THINK[1] in template.source else None)
        self.marks = (OPEN, CLOSE, *(self._tags or ()))

    def asked(self, params: GenerateParams) -> Asked:
        """Raises `InvalidRequest` for tools or a choice of them that this model cannot follow."""
        given = bool(params.tools) and params.tool_choice != "none"
        tools: list[Tool] = msgspec.json.decode(params.tools) if given else []
        variables = msgspec.json.decode(params.template) if params.template else {}
        if tools:
            self._check_tools()
        grammar = self._grammar(params, tools)
        return Asked(
            render=partial(self._render, tools, variables),
            answer=partial(self._answer, tools, grammar is not None),
            grammar=grammar,
        )

    def _check_tools(self) -> None:
        if self._form is None or (self._form == "json" and not self._has_place):
            raise InvalidRequest(
                f"'{self._name}' calls no tools that could be read: its chat template says none of the "
                "forms that are known; leave `tools` out, or say `tools: hermes` in its card",
                param="tools",
            )

    def _grammar(self, params: GenerateParams, tools: list[Tool]) -> tuple[str, str] | None:
        must = chosen(tools, params.tool_choice) if tools else []
        if not must or self._form is None:
            return params.grammar
        if params.grammar is not None:
            raise InvalidRequest(
                "a text that must be a call can keep no other format: ask for one of them",
                param="tool_choice",
            )
        return forced(self._form, must, several=params.tool_choice == "required")

    def _render(
        self, tools: list[Tool], variables: dict[str, Any], conversation: Conversation
    ) -> str:
        if self._form == "hermes" and not self._has_place:
            told = written_out(conversation.messages, tools)
            conversation = msgspec.structs.replace(conversation, messages=told)
        return self._template.render(conversation, tools, variables)

    def _answer(self, tools: list[Tool], formed: bool, prompt: str) -> Callable[[], Answer]:
        """`formed`: a grammar leaves no room for thoughts."""
        answer = answer_of(self._form, tools)
        if self._tags is None or formed:
            return answer
        tags, inside = self._tags, prompt.rstrip().endswith(self._tags[0])
        return lambda: Reasoned(tags, answer(), inside=inside)
