"""Pages and queries as ColPali's own processor writes them, and what a real runtime makes of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shoal.catalog.card import Card, EncodeTask, Multivector, Profile, ScoreTask, Source, Tasks
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
from tests.runtimes.torch import pages
from tests.worker.media.drawn import picture, saved
from tests.worker.media.test_pages import pdf
from tests.worker.media.tiny import colpali

QUERIES = ["what swims?", "a fish <pad> and\na bird"]
PICTURES = [picture(61, 40), picture(40, 70, seed=9), picture(16, 16, seed=2)]


def card_of(**changes: Any) -> Card:
    fields: dict[str, Any] = {
        "inputs": ["text", "image"],
        "tasks": Tasks(
            EncodeTask(
                multivector=Multivector(pages.DIM, projections=["embedding_proj_layer"]),
                prompts={"query": "Question: "},
                default_prompt="query",
            ),
            score=ScoreTask("maxsim"),
        ),
        "max_tokens": 64,
    }
    return Card("m", Source(dir="."), "colpali", **(fields | changes))


def preparer(folder: Path, **changes: Any) -> DecodingPreparer:
    made = preparer_of(card_of(**changes), folder, Profile(), "tokens", WorkerSettings())
    assert isinstance(made, DecodingPreparer)
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("colpali")


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return colpali(folder)


@pytest.fixture(scope="module")
def runtime(folder: Path, model: Any) -> TorchRuntime:
    runtime = TorchRuntime()
    runtime.load(load_of(card_of(), folder, Profile()))
    return runtime


def embeddings(model: Any, **given: Any) -> NDArray[np.float32]:
    """The reference's, of one item."""
    with torch.inference_mode():
        vectors: NDArray[np.float32] = model(**model.processor(**given)).embeddings[0].numpy()
    return vectors


def answers(
    runtime: TorchRuntime, folder: Path, items: list[Item], params: Params, query: str | None = None
) -> list[Any]:
    """What a unit of these items is answered with, all computed in one batch."""
    prepared = preparer(folder).prepare(items, params, query)
    good = [item for item in prepared if isinstance(item, Prepared)]
    assert len(good) == len(prepared), prepared
    sequences = [sequence for item in good for sequence in item.sequences]
    done = runtime.run(packed(1, "m", ["multivector"], sequences))
    assert not done.failed, done.failed
    output = read_outputs(done.arrays, done.lengths, done.indices, len(sequences))["multivector"]
    left = [{"multivector": row} for row in output.rows()]
    rows = [[left.pop(0) for _ in item.sequences] for item in good]
    asked = rows[-1] if query is not None else []
    finishes = [item.finish for item in good[: len(items)]]
    return [finish(own, asked) for finish, own in zip(finishes, rows, strict=False) if finish]


def png(image: Any) -> Media:
    return Media(saved(image, "PNG"))


def test_ids_and_pixels_are_those_of_the_reference(folder: Path, model: Any) -> None:
    made = preparer(folder)
    texts = made.prepare([*QUERIES], EncodeParams(("multivector",)))
    for query, ours in zip(QUERIES, texts, strict=True):
        assert isinstance(ours, Prepared)
        assert ours.ids is not None
        assert ours.ids.tolist() == model.processor(text=[query])["input_ids"][0].tolist()
    images = made.prepare([*map(png, PICTURES)], EncodeParams(("multivector",)))
    for image, ours in zip(PICTURES, images, strict=True):
        theirs = model.processor(images=[image], do_rescale=False, do_normalize=False)
        assert isinstance(ours, Prepared)
        assert ours.ids is not None
        assert ours.ids.tolist() == theirs["input_ids"][0].tolist()
        assert ours.length == len(ours.ids)
        assert ours.input is not None
        assert np.moveaxis(ours.input, 3, 1).tolist() == theirs["pixel_values"].tolist()


def test_pages_and_queries_of_one_batch_equal_the_reference(
    folder: Path, model: Any, runtime: TorchRuntime
) -> None:
    items: list[Item] = [
        png(PICTURES[0]),
        QUERIES[0],
        png(PICTURES[1]),
        QUERIES[1],
        png(PICTURES[2]),
    ]
    told = answers(runtime, folder, items, EncodeParams(("multivector",)))
    theirs = [embeddings(model, images=[image]) for image in PICTURES]
    asked = [embeddings(model, text=[query]) for query in QUERIES]
    expected = [theirs[0], asked[0], theirs[1], asked[1], theirs[2]]
    for ours, vectors in zip(told, expected, strict=True):
        np.testing.assert_allclose(ours["multivector"], vectors, atol=2e-5)


def test_a_query_finds_pages_and_a_file_counts_as_its_best(
    folder: Path, model: Any, runtime: TorchRuntime
) -> None:
    documents: list[Item] = [*map(png, PICTURES), Media(pdf((200, 100), (100, 200), (90, 90)))]
    told = answers(runtime, folder, documents, ScoreParams(b""), QUERIES[0])
    asked = embeddings(model, text=[QUERIES[0]])
    for ours, image in zip(told, PICTURES, strict=False):
        vectors = embeddings(model, images=[image])
        assert ours["score"] == pytest.approx((asked @ vectors.T).max(1).sum(), rel=1e-4)
    (file,) = preparer(folder).prepare(documents[3:], ScoreParams(b""), QUERIES[0])[:1]
    assert isinstance(file, Prepared)
    assert len(file.sequences) == 3
    assert file.length == 3 * len(file.sequences[0].ids)  # type: ignore[arg-type]
    alone = [(asked @ pages_of(runtime, sequence).T).max(1).sum() for sequence in file.sequences]
    assert told[3]["score"] == pytest.approx(max(alone), rel=1e-4)
    assert np.ptp(alone) > 0


def pages_of(runtime: TorchRuntime, sequence: Prepared) -> NDArray[np.float32]:
    done = runtime.run(packed(1, "m", ["multivector"], [sequence]))
    rows: Any = read_outputs(done.arrays, done.lengths, done.indices, 1)["multivector"].rows()[0]
    return np.asarray(rows)


def test_a_page_is_a_document_and_a_text_a_query(
    folder: Path, model: Any, runtime: TorchRuntime
) -> None:
    items: list[Item] = [png(PICTURES[0]), QUERIES[0]]
    page, query = answers(runtime, folder, items, EncodeParams(("fde",)))
    vectors = embeddings(model, images=[PICTURES[0]])
    asked = embeddings(model, text=[QUERIES[0]])
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
    (cut,) = preparer(folder).prepare(["ab " * 90], EncodeParams(("multivector",)))
    assert isinstance(cut, Prepared)
    assert cut.truncated
    assert cut.ids is not None
    tokenizer = model.processor.tokenizer
    assert tokenizer.convert_ids_to_tokens(cut.ids.tolist())[-11:] == ["<pad>"] * 10 + ["\n"]
    assert len(cut.ids) == 64


def test_what_cannot_be_a_page_is_said_at_load(tmp_path: Path) -> None:
    colpali(tmp_path)
    with pytest.raises(ModelLoadFailed, match="max_tokens 20, and a page has 37"):
        preparer(tmp_path, max_tokens=20)
    with pytest.raises(ModelLoadFailed, match="pages need text too"):
        preparer(tmp_path, inputs=["image"])
    change(tmp_path / "tokenizer.json", ["<image>"], ["<picture>"])
    with pytest.raises(ModelLoadFailed, match="no token <image>"):
        preparer(tmp_path)
    change(tmp_path / "processor_config.json", ["image_seq_length"], ["image_length"])
    with pytest.raises(ModelLoadFailed, match="lacks image_seq_length"):
        preparer(tmp_path)


def change(path: Path, old: list[str], new: list[str]) -> None:
    text = path.read_text()
    for one, other in zip(old, new, strict=True):
        assert json.dumps(one) in text
        text = text.replace(json.dumps(one), json.dumps(other))
    path.write_text(text)
