"""Pages and queries as their models' own processors write them, and what a real runtime makes of both."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shoal.catalog.card import Card, Profile, Source
from shoal.catalog.tasks import EncodeTask, Multivector, ScoreTask, Tasks
from shoal.errors import InvalidItem, ModelLoadFailed
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.settings import WorkerSettings
from shoal.tasks.encode import Item, Media
from shoal.tasks.fde import fixed
from shoal.values import EncodeParams, Params, ScoreParams
from shoal.wire.outputs import read_outputs
from shoal.worker.batches import packed
from shoal.worker.media import DecodingPreparer
from shoal.worker.models import load_of, preparer_of
from shoal.worker.prepared import Prepared
from tests.runtimes.torch import media, pages
from tests.worker.media.drawn import picture, saved
from tests.worker.media.test_pages import pdf
from tests.worker.media.tiny import colmodernvbert, colpali

Vectors = NDArray[np.float32]

MAKERS: dict[str, Callable[[Path], Any]] = {"colpali": colpali, "colmodernvbert": colmodernvbert}
PROMPTS = {"colpali": "Question: ", "colmodernvbert": ""}
MOST = {"colpali": 64, "colmodernvbert": 512}

QUERIES = ["what swims?", "a fish <image and\na bird"]
#: Wide, high, square and thin: of squares where a model sees those 4 x 3, 4 x 3, 4 x 4 and 4 x 1.
PICTURES = [picture(61, 40), picture(40, 70, seed=9), picture(16, 16, seed=2), picture(90, 9)]


def card_of(family: str, **changes: Any) -> Card:
    vectors = Multivector(pages.DIM, projections=["embedding_proj_layer"])
    encode = EncodeTask(
        multivector=vectors, prompts={"query": PROMPTS[family]}, default_prompt="query"
    )
    fields: dict[str, Any] = {
        "inputs": ["text", "image"],
        "tasks": Tasks(encode, score=ScoreTask("maxsim")),
        "max_tokens": MOST[family],
    }
    return Card("m", Source(dir="."), family, **(fields | changes))


def preparer(folder: Path, **changes: Any) -> DecodingPreparer:
    card = card_of(folder.name, **changes)
    made = preparer_of(card, folder, Profile(), "tokens", WorkerSettings())
    assert isinstance(made, DecodingPreparer)
    return made


@pytest.fixture(scope="module", params=MAKERS)
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Called as the family is."""
    folder: Path = tmp_path_factory.mktemp("models") / request.param
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return MAKERS[folder.name](folder)


@pytest.fixture(scope="module")
def runtime(folder: Path, model: Any) -> TorchRuntime:
    runtime = TorchRuntime()
    runtime.load(load_of(card_of(folder.name), folder, Profile()))
    return runtime


def processed(model: Any, item: Any) -> Any:
    """A query or an image as the reference sees it."""
    processor = model.processor
    return (processor.process_queries if isinstance(item, str) else processor.process_images)(
        [item]
    )


def vectors_of(model: Any, item: Any) -> Vectors:
    """The reference's."""
    with torch.inference_mode():
        vectors: Vectors = model(**processed(model, item)).embeddings[0].numpy()
    return vectors


def score_of(query: Vectors, page: Vectors) -> float:
    return float((query @ page.T).max(1).sum())


def given(item: Any) -> Item:
    return item if isinstance(item, str) else Media(saved(item, "PNG"))


def answers(
    runtime: TorchRuntime, folder: Path, items: list[Item], params: Params, query: str | None = None
) -> list[Any]:
    """What a unit of these items is answered with, all computed in one batch."""
    prepared = preparer(folder).prepare(items, params, query)
    good = [item for item in prepared if isinstance(item, Prepared)]
    assert len(good) == len(prepared), prepared
    left = computed(runtime, [sequence for item in good for sequence in item.sequences])
    rows = [[{"multivector": left.pop(0)} for _ in item.sequences] for item in good]
    asked = rows[-1] if query is not None else []
    finishes = [item.finish for item in good[: len(items)]]
    return [finish(own, asked) for finish, own in zip(finishes, rows, strict=False) if finish]


def computed(runtime: TorchRuntime, sequences: list[Prepared]) -> list[Any]:
    done = runtime.run(packed(1, "m", ["multivector"], sequences))
    assert not done.failed, done.failed
    output = read_outputs(done.arrays, done.lengths, done.indices, len(sequences))["multivector"]
    return [*output.rows()]


def test_ids_and_pixels_are_those_of_the_reference(folder: Path, model: Any) -> None:
    items = [*QUERIES, *PICTURES]
    prepared = preparer(folder).prepare([*map(given, items)], EncodeParams(("multivector",)))
    deviation, mean = (np.array(of)[:, None, None] for of in (media.STD, media.MEAN))
    for item, ours in zip(items, prepared, strict=True):
        theirs = processed(model, item)
        assert isinstance(ours, Prepared), ours
        assert ours.ids is not None
        assert ours.ids.tolist() == theirs["input_ids"][0].tolist()
        assert ours.length == len(ours.ids)
        if ours.input is None:
            assert "pixel_values" not in theirs
            continue
        pixels = (np.moveaxis(ours.input, 3, 1) / 255 - mean) / deviation
        expected = theirs["pixel_values"].reshape(pixels.shape)
        np.testing.assert_allclose(pixels, expected, atol=1e-5, rtol=0)


def test_pages_and_queries_of_one_batch_equal_the_reference(
    folder: Path, model: Any, runtime: TorchRuntime
) -> None:
    items = [PICTURES[0], QUERIES[0], PICTURES[1], QUERIES[1], *PICTURES[2:]]
    told = answers(runtime, folder, [*map(given, items)], EncodeParams(("multivector",)))
    for ours, item in zip(told, items, strict=True):
        np.testing.assert_allclose(ours["multivector"], vectors_of(model, item), atol=2e-5)


def test_a_query_finds_pages_and_a_file_counts_as_its_best(
    folder: Path, model: Any, runtime: TorchRuntime
) -> None:
    report = Media(pdf((200, 100), (100, 200), (90, 90)))
    told = answers(runtime, folder, [*map(given, PICTURES), report], ScoreParams(b""), QUERIES[0])
    asked = vectors_of(model, QUERIES[0])
    for ours, image in zip(told, PICTURES, strict=False):
        assert ours["score"] == pytest.approx(score_of(asked, vectors_of(model, image)), rel=1e-4)
    file, _ = preparer(folder).prepare([report], ScoreParams(b""), QUERIES[0])
    assert isinstance(file, Prepared)
    assert len(file.sequences) == 3
    assert file.length == sum(len(one.ids) for one in file.sequences if one.ids is not None)
    alone = [score_of(asked, page) for page in computed(runtime, [*file.sequences])]
    assert told[-1]["score"] == pytest.approx(max(alone), rel=1e-4)
    assert np.ptp(alone) > 0


def test_a_page_is_a_document_and_a_text_a_query(
    folder: Path, model: Any, runtime: TorchRuntime
) -> None:
    items = [given(PICTURES[0]), QUERIES[0]]
    page, query = answers(runtime, folder, items, EncodeParams(("fde",)))
    vectors = vectors_of(model, PICTURES[0])
    asked = vectors_of(model, QUERIES[0])
    np.testing.assert_allclose(page["fde"], fixed(vectors, query=False), atol=1e-4)
    np.testing.assert_allclose(query["fde"], fixed(asked, query=True), atol=1e-4)
    (sought,) = answers(runtime, folder, items[:1], EncodeParams(("fde",), prompt="query"))
    np.testing.assert_allclose(sought["fde"], fixed(vectors, query=True), atol=1e-4)


def test_vectors_are_of_one_page(folder: Path, model: Any) -> None:
    pages_file = Media(pdf((200, 100), (100, 200)))
    (refused,) = preparer(folder).prepare([pages_file], EncodeParams(("multivector",)))
    assert isinstance(refused, InvalidItem)
    assert "has 2 pages" in refused.message


def test_a_long_query_keeps_what_stands_behind_it(folder: Path, model: Any) -> None:
    (cut,) = preparer(folder).prepare(["ab " * 400], EncodeParams(("multivector",)))
    assert isinstance(cut, Prepared)
    assert cut.truncated
    assert cut.ids is not None
    assert len(cut.ids) == MOST[folder.name]
    whole = processed(model, "ab")["input_ids"][0].tolist()
    assert cut.ids.tolist()[-11:] == whole[-11:]
    assert cut.ids.tolist()[:2] == whole[:2]


def test_a_page_of_more_squares_than_fit_fails_alone(tmp_path: Path) -> None:
    folder = tmp_path / "colmodernvbert"
    folder.mkdir()
    colmodernvbert(folder)
    made = preparer(folder, max_tokens=100)
    thin, square = made.prepare(
        [given(PICTURES[3]), given(PICTURES[2])], EncodeParams(("multivector",))
    )
    assert isinstance(thin, Prepared)
    assert isinstance(square, InvalidItem)
    assert "is 4 x 4 squares of the model, 1" in square.message
    assert "takes at most 100" in square.message


def test_without_splitting_a_page_is_seen_whole(tmp_path: Path) -> None:
    folder = tmp_path / "colmodernvbert"
    folder.mkdir()
    model = colmodernvbert(folder)
    model.processor.image_processor.do_image_splitting = False
    model.processor.save_pretrained(folder)
    (ours,) = preparer(folder).prepare([given(PICTURES[0])], EncodeParams(("multivector",)))
    theirs = processed(model, PICTURES[0])
    assert isinstance(ours, Prepared)
    assert ours.ids is not None
    assert ours.ids.tolist() == theirs["input_ids"][0].tolist()
    assert ours.input is not None
    assert ours.input.shape == (1, 16, 16, 3)
    pixels = (ours.input / 255 - np.array(media.MEAN)) / np.array(media.STD)
    expected = np.moveaxis(theirs["pixel_values"][0].numpy(), 1, 3)
    np.testing.assert_allclose(pixels, expected, atol=1e-5, rtol=0)


def test_what_cannot_be_a_page_is_said_at_load(tmp_path: Path) -> None:
    folder = tmp_path / "colpali"
    folder.mkdir()
    colpali(folder)
    with pytest.raises(ModelLoadFailed, match="max_tokens 20, and a page has 37"):
        preparer(folder, max_tokens=20)
    with pytest.raises(ModelLoadFailed, match="pages need text too"):
        preparer(folder, inputs=["image"])
    change(folder / "tokenizer.json", "<image>", "<picture>")
    with pytest.raises(ModelLoadFailed, match="no token <image>"):
        preparer(folder)
    change(folder / "processor_config.json", "image_seq_length", "image_length")
    with pytest.raises(ModelLoadFailed, match="lacks image_seq_length"):
        preparer(folder)


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert json.dumps(old) in text
    path.write_text(text.replace(json.dumps(old), json.dumps(new)))
