"""What models that take images or audio are given, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.catalog.card import Card, Input, Profile, Source
from shoal.catalog.tasks import Dense, EncodeTask, Tasks
from shoal.errors import InvalidItem, InvalidRequest, ModelLoadFailed
from shoal.settings import WorkerSettings
from shoal.tasks.encode import Item, Media
from shoal.values import EncodeParams, ExtractParams, Params, ScoreParams
from shoal.worker.batches import packed
from shoal.worker.media import MediaPreparer
from shoal.worker.models import preparer_of
from shoal.worker.prepared import Prepared


def card(*inputs: Input) -> Card:
    task = EncodeTask(dense=Dense(4), prompts={"query": "find: "})
    return Card("m", Source(dir="."), "fake", Tasks(task), 512, inputs=list(inputs))


def prepared(inputs: tuple[Input, ...], *items: Item, **params: object) -> list[object]:
    wanted = EncodeParams(**params)  # type: ignore[arg-type]
    return list(MediaPreparer(card(*inputs)).prepare(list(items), wanted))


def test_files_count_by_their_kibibytes() -> None:
    small, large = prepared(("image",), Media(b"x"), Media(b"x" * 3_000_000, "image"))
    assert small == Prepared(media=b"x", length=1)
    assert isinstance(large, Prepared)
    assert large.length == 2930


def test_texts_beside_files_have_their_prompt() -> None:
    text, file = prepared(("text", "image"), "a cat", Media(b"x"), prompt="query")
    assert isinstance(text, Prepared)
    assert (text.text, text.media) == ("find: a cat", None)
    assert file == Prepared(media=b"x", length=1)


@pytest.mark.parametrize(
    ("inputs", "item", "why"),
    [
        (("image",), "a text", "takes image, no text"),
        (("image",), [1, 2], "no token ids"),
        (("image",), Media(b"x", "audio"), "takes image, no audio"),
        (("text", "audio"), Media(b"x", "image"), "takes text or audio, no image"),
        (("image",), Media(b""), "is empty"),
    ],
)
def test_what_a_model_does_not_take(inputs: tuple[Input, ...], item: Item, why: str) -> None:
    (error,) = prepared(inputs, item)
    assert isinstance(error, InvalidItem)
    assert why in error.message


@pytest.mark.parametrize("params", [ScoreParams(b'"q"'), ExtractParams()])
def test_other_tasks_are_refused(params: Params) -> None:
    """Nobody would make labels or scores of the rows."""
    with pytest.raises(InvalidRequest, match="'m' runs where files go in as they are"):
        MediaPreparer(card("image")).prepare([Media(b"x")], params)


@pytest.mark.parametrize("inputs", [("text", "image"), ("image",), ("audio",), ("image", "audio")])
def test_each_model_can_be_probed(inputs: tuple[Input, ...]) -> None:
    preparer = MediaPreparer(card(*inputs))
    (item,) = preparer.prepare([preparer.probe], EncodeParams())
    assert isinstance(item, Prepared)


def test_a_batch_has_files_texts_or_both() -> None:
    file, text = Prepared(media=b"x", length=1), Prepared(text="", length=1)
    only_files = packed(1, "m", ["dense"], [file, file])
    assert (only_files.media, only_files.texts) == ([b"x", b"x"], None)
    only_texts = packed(1, "m", ["dense"], [text])
    assert (only_texts.media, only_texts.texts) == (None, [""])
    both = packed(1, "m", ["dense"], [file, text])
    assert (both.media, both.texts) == ([b"x", b""], ["", ""])


def test_a_card_and_its_runtime_agree_on_the_inputs(tmp_path: Path) -> None:
    profile = Profile(runtime="fake")
    assert isinstance(
        preparer_of(card("image"), tmp_path, profile, "media", WorkerSettings()), MediaPreparer
    )
    with pytest.raises(ModelLoadFailed, match=r"`inputs: \[image\]`.*'fake' takes tokens only"):
        preparer_of(card("image"), tmp_path, profile, "tokens", WorkerSettings())
