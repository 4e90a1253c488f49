"""Whether a folder is a model that writes texts. How it does its files say to the worker, not to a card."""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.catalog.encoder import Config
from shoal.catalog.families import family_of
from shoal.catalog.folder import Found

#: Files that hold a chat template and nothing else.
TEMPLATES = ("chat_template.jinja", "chat_template.json")


class _Tokenizer(msgspec.Struct):
    chat_template: Any = None


def is_generator(found: Found, config: Config) -> bool:
    """Whether its family writes texts, and it has a chat template or a decoder that does nothing else.

    Raises `CardError` naming a file that cannot be read.
    """
    family = family_of(config.model_type or "")
    if family is None or not set(config.architectures or []) & set(family.generators):
        return False
    if family.anew:
        return True
    said = found.read("tokenizer_config.json", _Tokenizer) or _Tokenizer()
    return bool(said.chat_template or set(TEMPLATES) & set(found.sizes))
