"""Conversations to prompts: the chat template of a model, rendered as transformers renders it.

Decides which template it is and what it is given. It must not know tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Template
from jinja2.exceptions import TemplateError, TemplateSyntaxError

from shoal.catalog.document import read_json
from shoal.errors import InvalidItem, ModelLoadFailed
from shoal.tasks.generate.conversation import Conversation, Message, text_in
from shoal.worker.text.bounds import MOST_LENGTH
from shoal.worker.text.sandbox import Sandbox

#: Written as a message to learn what content a template reads.
_MARK = "Shoal-9d2f"
#: What templates are given of the tokenizer, by the keys of tokenizer_config.json.
_SPECIAL = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")

Tools = list[dict[str, Any]]


class ChatTemplate:
    """Those of one model.

    Attributes:
        source: of the one that is used where no tools are given.
    """

    def __init__(self, sources: Mapping[str, str], special: Mapping[str, str]) -> None:
        """`sources`: by name, ``default`` and maybe ``tool_use``. Raises `ModelLoadFailed`."""
        sandbox = Sandbox()
        self._sandbox = sandbox
        self._special = special
        self._templates: dict[str, Template] = {}
        for name, source in sources.items():
            try:
                self._templates[name] = sandbox.from_string(source)
            except TemplateSyntaxError as error:
                raise ModelLoadFailed(
                    f"the chat template '{name}' cannot be read, line {error.lineno}: {error.message}; "
                    "give another one as `chat_template` of the card"
                ) from None
        self.source = sources.get("default") or next(iter(sources.values()))
        self._texts = self._takes(_MARK)
        self._parts = self._takes([{"type": "text", "text": _MARK}])

    def render(self, conversation: Conversation, tools: Tools, variables: Mapping[str, Any]) -> str:
        """The prompt. Raises `InvalidItem` with what the template says against the conversation."""
        messages = [self._fitting(message) for message in conversation.messages]
        return self._render(self._template(tools), messages, tools, variables)

    def _template(self, tools: Tools) -> Template:
        """As transformers chooses: the one for tools where there are some."""
        names = ("tool_use", "default") if tools else ("default",)
        found = (self._templates.get(name) for name in names)
        return next((t for t in found if t is not None), next(iter(self._templates.values())))

    def _render(
        self,
        template: Template,
        messages: list[Message],
        tools: Tools,
        variables: Mapping[str, Any],
    ) -> str:
        given = {
            **self._special,
            "add_generation_prompt": True,
            "documents": None,
            **variables,
            "messages": messages,
            "tools": tools or None,
        }
        parts, length = [], 0
        try:
            self._sandbox.start()
            for part in template.generate(given):
                parts.append(part)
                length += len(part)
                if length > MOST_LENGTH:
                    raise TemplateError(f"it makes a prompt longer than {MOST_LENGTH} characters")
        except Exception as error:  # a template may fail as any program
            why = str(error) or type(error).__name__
            raise InvalidItem(
                f"the model's chat template refuses this conversation: {why}"
            ) from None
        return "".join(parts)

    def _takes(self, content: str | list[Message]) -> bool:
        """Whether a message with this content is told as it is."""
        try:
            asked = [{"role": "user", "content": content}]
            return _MARK in self._render(self._template([]), asked, [], {})
        except InvalidItem:
            return False

    def _fitting(self, message: Message) -> Message:
        """The message as the template reads it: text or parts, as vLLM has it; what a developer says
        is the system's where the template knows no developer."""
        if message["role"] == "developer" and "developer" not in self.source:
            message = {**message, "role": "system"}
        content = message.get("content")
        if isinstance(content, str) and self._parts and not self._texts:
            return {**message, "content": [{"type": "text", "text": content}]}
        if isinstance(content, list) and (self._texts or not self._parts):
            return {**message, "content": text_in(content)}
        return message


class _Named(msgspec.Struct):
    name: str
    template: str


class _Added(msgspec.Struct):
    content: str = ""


class _Config(msgspec.Struct):
    """Of `tokenizer_config.json`, and of the `special_tokens_map.json` of older models."""

    chat_template: str | list[_Named] | None = None
    bos_token: str | _Added | None = None
    eos_token: str | _Added | None = None
    unk_token: str | _Added | None = None
    sep_token: str | _Added | None = None
    pad_token: str | _Added | None = None
    cls_token: str | _Added | None = None
    mask_token: str | _Added | None = None


def read_template(
    folder: Path, of_card: str | None, ends: Mapping[str, str]
) -> ChatTemplate | None:
    """The card's template or, without one, that of the model's folder; None: there is none.

    `ends`: ``bos_token`` and ``eos_token`` where no file of the tokenizer's says them.
    Raises `ModelLoadFailed` for files or a template that cannot be read.
    """
    config = read_json(folder / "tokenizer_config.json", _Config, _Config())
    sources = {"default": of_card} if of_card is not None else _sources(folder, config)
    if not sources:
        return None
    mapped = read_json(folder / "special_tokens_map.json", _Config, _Config())
    special = {**ends, **_special(mapped), **_special(config)}
    return ChatTemplate(sources, special)


def eos_token(folder: Path) -> str | None:
    """What the tokenizer's own files say ends a text."""
    return _special(read_json(folder / "tokenizer_config.json", _Config, _Config())).get(
        "eos_token"
    )


def _sources(folder: Path, config: _Config) -> dict[str, str]:
    """As transformers reads them: files of their own come before what a configuration says."""
    sources = {
        file.stem: file.read_text() for file in folder.glob("additional_chat_templates/*.jinja")
    }
    if (file := folder / "chat_template.jinja").is_file():
        return {**sources, "default": file.read_text()}
    if (file := folder / "chat_template.json").is_file():
        return {**sources, "default": str(json.loads(file.read_text())["chat_template"])}
    if isinstance(config.chat_template, list):
        return {named.name: named.template for named in config.chat_template}
    return {"default": config.chat_template} if config.chat_template else {}


def _special(config: _Config) -> dict[str, str]:
    found = {f"{name}_token": getattr(config, f"{name}_token") for name in _SPECIAL}
    named = {name: getattr(token, "content", token) for name, token in found.items()}
    return {name: token for name, token in named.items() if token}
