"""The bytes that a token stands for, as tokenizers' decoders have them. Pure: no tokenizer is run.

Generators are of three kinds: byte-level BPE (Radford et al., 2019), whose characters each stand for a
byte; SentencePiece with byte fallback (Llama 2, Gemma), whose rare characters are tokens ``<0xE2>``; and
SentencePiece without (T5).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

#: What a token's text stands for.
BytesOf = Callable[[str], bytes]

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def bytes_of(decoder: dict[str, Any] | None) -> BytesOf | None:
    """How the decoder of a tokenizer.json reads a token; None where it is of another kind.

    That it takes a space off a whole text is another matter (`spaced`).
    """
    steps = _steps(decoder)
    if [step["type"] for step in steps] == ["ByteLevel"]:
        return _of_characters
    fallback, replaced = False, {}
    for step in steps:
        match step["type"]:
            case "ByteFallback":
                fallback = True
            case "Replace" if isinstance(step["pattern"].get("String"), str):
                replaced[step["pattern"]["String"]] = step["content"]
            case "Metaspace":
                replaced[step["replacement"]] = " "
            case "Fuse" | "Strip":
                pass
            case _:
                return None
    if not replaced:
        return None
    return lambda token: _of_text(token, replaced, fallback=fallback)


def spaced(decoder: dict[str, Any] | None) -> bool:
    """Whether a text by itself begins with a space that is no part of it, as SentencePiece puts one there."""
    return any(
        (step["type"] == "Strip" and step["content"] == " " and step["start"] > 0)
        or (step["type"] == "Metaspace" and step.get("prepend_scheme", "always") != "never")
        for step in _steps(decoder)
    )


def _steps(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    if decoder is None:
        return []
    if decoder["type"] == "Sequence":
        return [step for inner in decoder["decoders"] for step in _steps(inner)]
    return [decoder]


def _of_text(token: str, replaced: dict[str, str], *, fallback: bool) -> bytes:
    if fallback and (byte := _BYTE.fullmatch(token)) is not None:
        return bytes([int(byte[1], 16)])
    for old, new in replaced.items():
        token = token.replace(old, new)
    return token.encode()


def _of_characters(token: str) -> bytes:
    try:
        return bytes([_BYTES[character] for character in token])
    except KeyError:  # a token that was added as text
        return token.encode()


def _alphabet() -> dict[str, int]:
    """GPT-2's: printable Latin-1 stands for itself, the other bytes for what follows U+0100."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in shown]
    return {chr(b): b for b in shown} | {chr(256 + n): b for n, b in enumerate(others)}


_BYTES = _alphabet()
