"""Every card of the catalog through one `shoal serve`: its own tasks, prompts and labels, its
architecture with random weights; what the API answers is what its runtime computes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import shoal
from shoal.bench.serving import Serving
from shoal.catalog.card import Card
from shoal.catalog.parse import to_yaml
from shoal.catalog.resolve import Catalog
from shoal.client import Sparse
from shoal.gateway.extract import OPEN_HEADS
from tests.e2e.direct import Direct
from tests.runtimes.torch.card_models import Models
from tests.worker.media.drawn import picture, saved
from tests.worker.media.test_sound import saved as sound_file

#: The others are built of no config: tests/e2e/test_receipts.py reads with the real one.
CARDS = [c for c in Catalog.load().cards() if c.profile("default").runtime == "torch"]
#: One that most models cut; none that a tokenizer without letters of other scripts knows nothing of.
TEXTS = ["A fish swims.", "many fish swim in the sea, " * 24, "Stra\u00dfe 7"]
QUERY = "what swims?"
OWN_LABELS = ["fish", "bird", "tree"]


def items_of(card: Card) -> list[Any]:
    """Of each kind that the card takes."""
    image = saved(picture(300, 200), "PNG")
    sound = np.random.default_rng(5).normal(size=1600).astype(np.float32) / 9
    given: dict[str, list[Any]] = {
        "text": TEXTS,
        "image": [image, saved(picture(40, 70), "JPEG")],
        "audio": [sound_file(sound, 1600, "FLAC")],
    }
    return [item for kind in card.inputs for item in given[kind]]


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Card]:
    models = Models(tmp_path_factory.mktemp("models"))
    return {card.name: models.card(card) for card in CARDS}


@pytest.fixture(scope="module")
def client(cards: dict[str, Card]) -> Iterator[shoal.Client]:
    """All but one are loaded when they are asked."""
    files = {str(number): to_yaml(card) for number, card in enumerate(cards.values())}
    with (
        Serving([CARDS[0].name], cards=files, profile="default") as serving,
        shoal.Client(serving.url) as made,
    ):
        yield made


@pytest.fixture
def card(cards: dict[str, Card], request: pytest.FixtureRequest) -> Card:
    return cards[request.param.name]


@pytest.fixture
def direct(card: Card) -> Direct:
    assert card.source.dir is not None
    return Direct(card, Path(card.source.dir))


def doing(task: str) -> pytest.MarkDecorator:
    """The cards with this task."""
    chosen = [card for card in CARDS if task in card.tasks.names()]
    return pytest.mark.parametrize("card", chosen, indirect=True, ids=lambda card: card.name)


@doing("encode")
def test_encode(client: shoal.Client, card: Card, direct: Direct) -> None:
    task = card.tasks.encode
    assert task is not None
    outputs = task.outputs()
    for prompt in [None, *task.prompts]:
        items = items_of(card) if prompt is None else TEXTS[:1]
        encoded = client.encode_detailed(card.name, items, outputs=outputs, prompt=prompt)
        assert not encoded.errors
        assert max(encoded.tokens) <= card.max_tokens
        expected = direct.encode(items, tuple(outputs), prompt)
        for name in outputs:
            told = list(encoded.vectors) if name == "dense" else encoded.outputs[name]
            for ours, theirs in zip(told, expected[name], strict=True):
                same_row(ours, theirs)
        if task.dense is not None:
            assert encoded.vectors.shape == (len(items), task.dense.dim)
    for dim in task.dense.matryoshka if task.dense is not None else []:
        assert client.encode(card.name, TEXTS, dimensions=dim).shape == (len(TEXTS), dim)


def same_row(ours: Any, theirs: Any) -> None:
    """Of one item: a vector, vectors of its tokens, or weights of terms, some of them noise."""
    if isinstance(theirs, Sparse):
        columns = int(max(*ours.indices, *theirs.indices)) + 1
        ours, theirs = (spread(row, columns) for row in (ours, theirs))
    np.testing.assert_allclose(ours, theirs, atol=2e-4 * np.abs(theirs).max(), rtol=1e-3)


def spread(row: Sparse, columns: int) -> np.ndarray[Any, Any]:
    wide = np.zeros(columns, np.float32)
    wide[row.indices] = row.values
    return wide


@doing("generate")
def test_generate(client: shoal.Client, card: Card, direct: Direct) -> None:
    said = client.generate_detailed(card.name, TEXTS[:1] * 3, temperature=0, max_tokens=12)
    assert not said.errors
    (expected,) = direct.generate(TEXTS[:1], temperature=0.0, max_tokens=12)
    for text in said.texts:
        assert (text.text, text.finish) == (expected.text, expected.finish)
        assert text.new_tokens == expected.new_tokens


@doing("score")
def test_score(client: shoal.Client, card: Card, direct: Direct) -> None:
    scored = client.score_detailed(card.name, QUERY, TEXTS)
    assert not scored.errors
    np.testing.assert_allclose(scored.scores, direct.score(QUERY, TEXTS), rtol=1e-3, atol=1e-5)
    assert np.ptp(scored.scores) > 0


@doing("extract")
def test_extract(client: shoal.Client, card: Card, direct: Direct) -> None:
    task = card.tasks.extract
    assert task is not None
    labels = OWN_LABELS if task.head in OPEN_HEADS else None
    items = [item for item in items_of(card) if isinstance(item, str) or card.takes_media]
    if task.head == "image-text":
        items = [item for item in items if isinstance(item, bytes)]
    found = client.extract(card.name, items, labels=labels)
    for ours, theirs in zip(found, direct.extract(items, labels), strict=True):
        told, expected = (msgspec.to_builtins(one) for one in (ours, theirs))
        assert told.keys() == expected.keys()
        for key in told:
            same_answers(told[key], expected[key])


#: Of a segment, beside where it lies.
SURELY = ("avg_logprob", "no_speech_prob", "compression_ratio")


def same_answers(ours: Any, theirs: Any) -> None:
    """Equal but for the last digits of scores, by which labels are sorted."""
    if isinstance(theirs, str | float):
        assert ours == theirs
        return
    ours, theirs = (sorted(rows, key=place_of) for rows in (ours, theirs))
    scores, expected = (
        [[row.pop(name, 0.0) for name in ("score", *SURELY)] for row in rows]
        for rows in (ours, theirs)
    )
    assert ours == theirs
    np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=2e-4)


def place_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """Where an entity or a segment lies, or what the label is."""
    return row.get("start", row.get("start_s", 0)), row.get("label", "")
