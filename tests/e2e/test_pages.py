"""Pages through the real `shoal serve`: a ColPali with little in it, and as many vectors a page as the
published ones, against transformers."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pypdfium2 as pdfium
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from typer.testing import CliRunner

import shoal
from shoal.bench.serving import Serving
from shoal.cli.main import app
from shoal.tasks.fde import fixed
from tests.worker.media.drawn import picture, saved
from tests.worker.media.tiny import colpali

#: 1,024 squares of 4 pixels, as PaliGemma has of 14; and the numbers of a vector.
SIZE, DIM = 128, 128
PAGE_VECTORS = 1024 + 21
QUERY = "what swims?"
CARD = f"""\
name: pages
source: {{dir: model}}
family: colpali
inputs: [text, image]
tasks:
  encode:
    multivector: {{dim: {DIM}, projections: [embedding_proj_layer]}}
    prompts: {{query: "Question: "}}
    default_prompt: query
  score: {{head: maxsim}}
max_tokens: 1072
"""
PICTURES = [picture(300, 400, seed=seed) for seed in (1, 2, 3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cards")
    (folder / "model").mkdir()
    (folder / "pages.yaml").write_text(CARD)
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return colpali(folder / "model", SIZE, DIM, 1072)


@pytest.fixture(scope="module")
def serving(folder: Path, model: Any) -> Iterator[Serving]:
    with Serving(["pages", "--catalog", str(folder)]) as serving:
        yield serving


@pytest.fixture(scope="module")
def client(serving: Serving) -> Iterator[shoal.Client]:
    with shoal.Client(serving.url) as client:
        yield client


@pytest.fixture(scope="module")
def pages(model: Any) -> list[NDArray[np.float32]]:
    return [vectors(model, images=[image]) for image in PICTURES]


@pytest.fixture(scope="module")
def asked(model: Any) -> NDArray[np.float32]:
    return vectors(model, text=[QUERY])


def vectors(model: Any, **given: Any) -> NDArray[np.float32]:
    with torch.inference_mode():
        said: NDArray[np.float32] = model(**model.processor(**given)).embeddings[0].numpy()
    return said


def png(image: Image.Image) -> bytes:
    return saved(image, "PNG")


def pdf(images: list[Image.Image]) -> bytes:
    """A page of each, drawn over all of it."""
    document = pdfium.PdfDocument.new()
    for image in images:
        page = document.new_page(300, 400)
        drawn = pdfium.PdfImage.new(document)
        drawn.set_bitmap(pdfium.PdfBitmap.from_pil(image))
        drawn.set_matrix(pdfium.PdfMatrix().scale(300, 400))
        page.insert_obj(drawn)
        page.gen_content()
    file = io.BytesIO()
    document.save(file)
    document.close()
    return file.getvalue()


def test_pages_and_queries_have_the_vectors_of_the_reference(
    client: shoal.Client, pages: list[NDArray[np.float32]], asked: NDArray[np.float32]
) -> None:
    """Answers of 535 kB an item: larger than what one unit's should be."""
    items = [*map(png, PICTURES), QUERY]
    encoded = client.encode_detailed("pages", items, outputs=["multivector"])
    assert not encoded.errors
    assert encoded.tokens.tolist()[:3] == [PAGE_VECTORS] * 3
    told: list[Any] = [*encoded.outputs["multivector"]]
    for ours, theirs in zip(told, [*pages, asked], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=5e-5)


@pytest.mark.parametrize("dtype", ["float16", "int8", "uint8"])
def test_vectors_of_pages_take_less_room(
    client: shoal.Client, pages: list[NDArray[np.float32]], dtype: Any
) -> None:
    items = png(PICTURES[0])
    encoded = client.encode_detailed("pages", items, outputs=["multivector"], dtype=dtype)
    outputs: Any = encoded.outputs
    (ours,) = outputs["multivector"]
    assert ours.shape == (PAGE_VECTORS, DIM)
    assert ours.dtype == dtype
    scale, zero = (
        outputs.get(f"multivector.{what}", [default])[0]
        for what, default in (("scale", np.ones(1)), ("zero_point", np.zeros(1)))
    )
    restored = (ours.astype(np.float32) - zero[:, None]) * scale[:, None]
    steps = 1e-3 if dtype == "float16" else scale[:, None] * (0.51 if dtype == "int8" else 1.01)
    assert (np.abs(restored - pages[0]) < steps + 5e-5).all()


def test_bits_of_pages(client: shoal.Client, pages: list[NDArray[np.float32]]) -> None:
    encoded = client.encode_detailed(
        "pages", png(PICTURES[0]), outputs=["multivector"], dtype="binary"
    )
    (ours,) = encoded.outputs["multivector"]
    assert np.asarray(ours).nbytes == PAGE_VECTORS * DIM // 8
    bits = np.unpackbits(np.asarray(ours), axis=1).astype(bool)
    clear = np.abs(pages[0]) > 1e-4
    assert (bits == (pages[0] > 0))[clear].all()


def test_fixed_encodings_of_pages(
    client: shoal.Client, pages: list[NDArray[np.float32]], asked: NDArray[np.float32]
) -> None:
    items = [png(PICTURES[1]), QUERY]
    told: Any = client.encode_detailed("pages", items, outputs=["fde"]).outputs["fde"]
    page, query = told
    theirs = fixed(pages[1], query=False), fixed(asked, query=True)
    assert page @ query == pytest.approx(theirs[0] @ theirs[1], rel=1e-2)


def test_a_query_ranks_pages(
    client: shoal.Client, pages: list[NDArray[np.float32]], asked: NDArray[np.float32]
) -> None:
    scored = client.score_detailed("pages", QUERY, [*map(png, PICTURES)])
    expected = np.array([(asked @ page.T).max(1).sum() for page in pages])
    np.testing.assert_allclose(scored.scores, expected, rtol=1e-4)
    assert scored.ranked().tolist() == np.argsort(-expected).tolist()
    assert not scored.errors


def test_a_file_of_three_pages_is_as_good_as_its_best(client: shoal.Client) -> None:
    alone = client.score("pages", QUERY, [pdf([image]) for image in PICTURES])
    together = client.score_detailed("pages", QUERY, [pdf(PICTURES)])
    assert together.scores[0] == pytest.approx(max(alone), rel=1e-5)
    assert together.tokens[0] > 3 * PAGE_VECTORS


def test_the_command_ranks_files(serving: Serving, client: shoal.Client, tmp_path: Path) -> None:
    for number, image in enumerate(PICTURES, 1):
        (tmp_path / f"{number}.pdf").write_bytes(pdf([image]))
    told = CliRunner().invoke(
        app,
        ["score", "pages", QUERY, str(tmp_path), "--files", "--json", "--url", serving.url],
    )
    assert told.exit_code == 0, told.output
    scores = [json.loads(line)["score"] for line in told.stdout.splitlines()]
    files = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
    np.testing.assert_allclose(scores, client.score("pages", QUERY, files), rtol=1e-5)
