"""Which cards fit what somebody looks for, and what to tell who finds none. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from shoal.catalog.card import Card
from shoal.spelling import nearest

#: What a card says of a model that was trained on too many languages to name.
ANY_LANGUAGE = "multilingual"

#: A language as cards have it; `german` is none.
_CODE = re.compile(r"[a-z]{2,3}(-[a-z0-9]+)*")
_CODES = "; languages are codes, such as de, en or zh-hant"

#: What stands between the marks of a name: `bge` and `small` of `bge-small-en-v1.5`.
_PARTS = re.compile(r"[A-Za-z]{3,}")


class Criteria(msgspec.Struct, frozen=True):
    """What is looked for; a card must fit all that is given.

    Attributes:
        words: each stands somewhere in the name, an alias or the description.
        task: a task (`encode`), what it gives (`sparse`) or how (`token-labels`).
        language: a language code; `zh` finds `zh-hant` too, and `pt-br` finds `pt`.
        license: the start of one.
        size_under_mb: of the weights, in 10^6 bytes; a card that states no size does not fit.
        family: an architecture.
    """

    words: tuple[str, ...] = ()
    task: str | None = None
    language: str | None = None
    license: str | None = None
    size_under_mb: float | None = None
    family: str | None = None

    def given(self) -> list[str]:
        """The criteria that say something."""
        return [name for name in self.__struct_fields__ if getattr(self, name) not in (None, ())]


def search(cards: Iterable[Card], criteria: Criteria) -> list[Card]:
    """The cards that fit, the smallest first and those that state no size last."""
    tests = [(_TESTS[name], getattr(criteria, name)) for name in criteria.given()]
    found = [card for card in cards if all(test(card, asked) for test, asked in tests)]
    return sorted(found, key=_by_size)


def kinds(card: Card) -> list[str]:
    """What the model does, from the general to the special: `[encode, dense]`."""
    return [said for name in card.tasks.names() for said in (name, *_kinds(card, name))]


def gives(card: Card) -> list[str]:
    """What the model gives or how, without the tasks that it does so for: `[dense]`."""
    return [kind for name in card.tasks.names() for kind in _kinds(card, name) or [name]]


def _kinds(card: Card, name: str) -> list[str]:
    task = getattr(card.tasks, name)
    match name:
        case "encode":
            return list(task.outputs())
        case "generate":
            return []
    return [task.head]


def why_none(cards: list[Card], criteria: Criteria) -> str:
    """What to tell who found nothing: a word spelled wrong, or the criterion that is in the way."""
    if not cards:
        return "the catalog is empty"
    for name, known in _vocabularies(cards).items():
        asked = getattr(criteria, name)
        if asked is not None and not search(cards, Criteria(**{name: asked})):
            told = f"no model of the catalog has {name} '{asked}'{nearest(asked, known)}"
            hint = {"task": f"; there are {_tasks(cards)}", "language": _CODES}.get(name, "")
            return f"{told}{hint}"
    for word in criteria.words:
        if not search(cards, Criteria(words=(word,))):
            hint = nearest(word, _names(cards))
            return f"no model of the catalog is called or described as '{word}'{hint}"
    less = [(name, search(cards, _without(criteria, name))) for name in criteria.given()]
    name, found = max(less, key=lambda pair: len(pair[1]))
    if not found:
        return "no model of the catalog fits, and none would with one criterion less"
    some = ", ".join(card.name for card in found[:3])
    which = {"words": "the words", "size_under_mb": "the size"}.get(name, f"the {name}")
    return f"no model of the catalog fits all of it; without {which}, {len(found)} do: {some}"


def _tasks(cards: list[Card]) -> str:
    """Each task with what it gives or how, for whoever calls it by another word: `ner`, `rerank`."""
    by_task: dict[str, set[str]] = {}
    for card in cards:
        for name in card.tasks.names():
            by_task.setdefault(name, set()).update(_kinds(card, name))
    how = {
        name: f" ({', '.join(sorted(kinds))})" if kinds else "" for name, kinds in by_task.items()
    }
    return ", ".join(f"{name}{how[name]}" for name in sorted(how))


def _without(criteria: Criteria, name: str) -> Criteria:
    return msgspec.structs.replace(criteria, **{name: () if name == "words" else None})


def _names(cards: list[Card]) -> Iterable[str]:
    """What cards are called, and the parts of it."""
    for card in cards:
        for name in (card.name, *card.aliases):
            yield name
            yield from _PARTS.findall(name)


def _vocabularies(cards: list[Card]) -> dict[str, set[str]]:
    """The words that criteria of one word may be."""
    return {
        "task": {kind for card in cards for kind in kinds(card)},
        "language": {language for card in cards for language in card.languages},
        "license": {card.license for card in cards if card.license},
        "family": {card.family for card in cards},
    }


def _by_size(card: Card) -> tuple[float, str]:
    size = card.memory.weights_mb
    return (float("inf") if size is None else size, card.name)


def _has_words(card: Card, words: tuple[str, ...]) -> bool:
    text = " ".join([card.name, *card.aliases, card.description or ""]).lower()
    return all(word.lower() in text for word in words)


def _has_task(card: Card, task: str) -> bool:
    return task.lower() in kinds(card)


def _speaks(card: Card, language: str) -> bool:
    asked = language.lower()
    any_ = ANY_LANGUAGE in card.languages and _CODE.fullmatch(asked) is not None
    return any_ or any(
        _is_part(known.lower(), asked) or _is_part(asked, known.lower()) for known in card.languages
    )


def _is_part(code: str, of: str) -> bool:
    """Whether a language code is `of`, or one of its regions or scripts."""
    return code == of or code.startswith(f"{of}-")


def _is_licensed(card: Card, license: str) -> bool:
    return card.license is not None and card.license.lower().startswith(license.lower())


def _is_smaller(card: Card, size_mb: float) -> bool:
    return card.memory.weights_mb is not None and card.memory.weights_mb < size_mb


def _is_family(card: Card, family: str) -> bool:
    return card.family == family.lower()


_TESTS: dict[str, Callable[[Card, Any], bool]] = {
    "words": _has_words,
    "task": _has_task,
    "language": _speaks,
    "license": _is_licensed,
    "size_under_mb": _is_smaller,
    "family": _is_family,
}
