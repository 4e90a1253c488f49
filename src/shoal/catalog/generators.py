"""What a model that writes texts says of how it does: its files beside the weights, as a task.

Only what they say: a `generation_config.json` that draws gives the numbers it draws by, and a chat
template shows how tools are called and thoughts are set apart.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.catalog.card import GenerateTask
from shoal.catalog.encoder import Config
from shoal.catalog.families import family_of
from shoal.catalog.folder import Found

TEMPLATE = "chat_template.jinja"

#: Of Qwen and its kin; a template that has one of a pair has both.
_TOOL_CALL, _THOUGHT = "<tool_call>", ("<think>", "</think>")


class _Generation(msgspec.Struct):
    do_sample: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None


class _Tokenizer(msgspec.Struct):
    chat_template: Any = None


def read_generator(found: Found, config: Config) -> GenerateTask | None:
    """How it writes; None: it is no model of a family that does, or has no chat template.

    Raises `CardError` naming a file that cannot be read.
    """
    family = family_of(config.model_type or "")
    if family is None or not set(config.architectures or []) & set(family.generators):
        return None
    template = _template(found)
    if not template:
        return None
    said = found.read("generation_config.json", _Generation) or _Generation()
    draws = {
        key: getattr(said, key)
        for key in ("temperature", "top_p", "top_k", "min_p")
        if said.do_sample
    }
    return GenerateTask(
        **draws,
        repetition_penalty=said.repetition_penalty,
        tools="hermes" if _TOOL_CALL in template else None,
        reasoning=_THOUGHT if _THOUGHT[1] in template else None,
    )


def _template(found: Found) -> str:
    """The chat template; of several, what all of them say."""
    path = found.folder / TEMPLATE
    if TEMPLATE in found.sizes and path.is_file():
        return path.read_text(errors="replace")
    said = found.read("tokenizer_config.json", _Tokenizer) or _Tokenizer()
    template = said.chat_template
    return (
        template
        if isinstance(template, str)
        else msgspec.json.encode(template or "").decode()[1:-1]
    )
