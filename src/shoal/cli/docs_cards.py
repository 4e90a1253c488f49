"""Writes `docs/cards.md` from the packaged cards: ``python -m shoal.cli.docs_cards PATH``.

A test fails when the page and the cards part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from shoal.catalog.card import Card
from shoal.catalog.gaps import GAPS, gaps
from shoal.catalog.resolve import Catalog
from shoal.catalog.search import gives
from shoal.cli.docs_path import path_of_page
from shoal.cli.docs_table import row

#: What the cards call their sources, and what was read there.
FACTS = {
    "mteb": "mteb 2.26.24, its descriptions of models: licence, languages, size, width, longest "
    "text, prompts, revision",
    "fastembed": "fastembed 0.9.1 and its Rust sibling, their lists of models: pooling, width, "
    "longest text, how queries are filled",
    "vllm tests": "vLLM's tests of embedders and rerankers: architecture and pooling",
    "vllm docs": "vLLM's documentation and the thread that brought it the model: the text that the "
    "generator is asked with, its two answers",
    "keras-hub": "keras-hub's page on its ModernBERT embedder: pooling, normalizing",
    "pylate": "pylate 1.6.0: how it saves a model, and what it does where that says nothing",
    "llm-guard": "llm-guard 0.3.16, the models of its scanners: revision, longest text",
    "sentence-transformers docs": "the documentation of sentence-transformers: labels",
    "transformers": "transformers 5.24, the model's own classes there: width, prompts of its processor",
    "model card": "the model's own README, there or where it is quoted; its publisher's repository",
    "model page": "the repository's pages on the hub: licence, languages, files and their sizes, "
    "commits",
    "config.json": "the model's configuration",
    "1_Pooling/config.json": "the model's own file on how it pools",
    "artifact.metadata": "what ColBERT saves beside a model: its lengths and markers",
    "onnx_config.json": "what comes beside an export of the model: lengths, markers, width",
    "gguf metadata": "of a conversion of the model: pooling, longest text",
    "architecture": "no more than the positions that the architecture has",
}

_HEAD = """# The cards that come with Shoal

Written from the cards by `make docs`; do not edit by hand. [catalog.md](catalog.md) says how cards
work; `shoal models search` finds one by what it gives, language, licence and size.
"""

_READ = """
## Where it was read

What a card says was read in the places that its key `facts` names, on 2026-11-30. Nothing is
guessed: what no source says is left out, and counted above.

| `facts` | what it is |
| --- | --- |"""


def render() -> str:
    """The whole page."""
    cards = Catalog.load().cards()
    return "\n".join([_HEAD, *_counts(cards), *_gaps(cards), _READ, *_facts(), *table(cards), ""])


def _counts(cards: list[Card]) -> Iterable[str]:
    yield f"There are {len(cards)} cards.\n"
    yield "| gives | cards |\n| --- | --- |"
    counts = Counter(kind for card in cards for kind in gives(card))
    yield from (row(f"`{kind}`", str(count)) for kind, count in sorted(counts.items()))


def _gaps(cards: list[Card]) -> Iterable[str]:
    counts = Counter(gap for card in cards for gap in gaps(card))
    yield "\n## What they leave unsaid\n"
    yield "| not said | cards | what holds then |\n| --- | --- | --- |"
    yield from (row(f"`{gap}`", str(counts[gap]), then) for gap, (_, then) in GAPS.items())


def _facts() -> Iterable[str]:
    return (row(f"`{name}`", about) for name, about in FACTS.items())


def table(cards: list[Card]) -> Iterable[str]:
    """All cards, a line each, under a heading."""
    yield "\n## All of them\n"
    yield "| model | gives | family | tokens | MB | licence | what for |\n| --- | --- | --- | --- | --- | --- | --- |"
    for card in cards:
        size = card.memory.weights_mb
        yield row(
            card.name,
            " ".join(gives(card)),
            card.family,
            str(card.max_tokens),
            "" if size is None else f"{size:.0f}",
            card.license or "",
            card.description or "",
        )


if __name__ == "__main__":
    path_of_page(__doc__).write_text(render())
