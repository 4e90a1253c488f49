"""What a card leaves unsaid since no source that was read says it. Pure."""

from __future__ import annotations

from collections.abc import Callable

from shoal.catalog.card import Card


def gaps(card: Card) -> list[str]:
    """What `card` does not say, of `GAPS`."""
    return [name for name, (is_gap, _) in GAPS.items() if is_gap(card)]


def _names_labels(card: Card) -> bool:
    return card.tasks.extract is not None and card.tasks.extract.head in _LABELLED


#: Heads whose outputs have names of the model's own.
_LABELLED = ("token-labels", "sequence-labels", "nli", "image-labels")

#: What a card may leave unsaid: whether it does, and what holds then.
GAPS: dict[str, tuple[Callable[[Card], bool], str]] = {
    "license": (lambda card: card.license is None, "ask the model's authors before you use it"),
    "languages": (lambda card: not card.languages, "no search by language finds the model"),
    "weights_mb": (
        lambda card: card.memory.weights_mb is None,
        "the size of the files, once they were fetched",
    ),
    "labels": (
        lambda card: _names_labels(card) and not getattr(card.tasks.extract, "labels", ()),
        "those of the model's config.json",
    ),
    "revision": (
        lambda card: card.source.hub is not None and card.source.revision is None,
        "the commit of the first pull, recorded then",
    ),
}
