"""Drawn receipts, read by the real model through `shoal serve`: exactly, and as rapidocr reads them.

`receipts.json`: of some receipts, what rapidocr 3.10.0 (onnxruntime 1.27, OpenCV 5.0) made of the same
PNG: text, score and box of each line, in its order.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image, ImageOps

from shoal.bench.quality.receipts import Receipt, receipts
from shoal.bench.serving import Serving
from shoal.client import Client, Extraction
from shoal.errors import InvalidItem

MODEL = "pp-ocrv6-small"
RECORDED = json.loads((Path(__file__).parent / "receipts.json").read_text())
DRAWN = receipts(1 + max(map(int, RECORDED)))
#: Pixels, and score: a line's strip is filled up to another width.
APART, SCORES_APART = 2, 0.1


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        Serving([MODEL], memory_bytes=700_000_000) as serving,
        Client(serving.url, timeout_s=110) as client,
    ):
        yield client


def saved(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def opened(receipt: Receipt) -> Image.Image:
    return Image.open(io.BytesIO(receipt.png)).convert("RGB")


@pytest.mark.parametrize("number", [int(number) for number in RECORDED])
def test_a_receipt_is_read_exactly_and_as_rapidocr_reads_it(client: Client, number: int) -> None:
    receipt = DRAWN[number]
    (found,) = client.extract(MODEL, [receipt.png])
    assert found.text == receipt.text
    assert (found.width, found.height) == opened(receipt).size
    recorded = RECORDED[str(number)]
    assert found.lines is not None
    assert [line.text for line in found.lines] == [text for text, _, _ in recorded]
    for line, (_, score, box) in zip(found.lines, recorded, strict=True):
        assert np.abs(np.array(line.box) - box).max() <= APART
        assert line.score == pytest.approx(score, abs=SCORES_APART)


def test_whatever_the_file_is(client: Client) -> None:
    """A photo that lies on its side by its EXIF, a gray one, and a page."""
    receipt = DRAWN[1]
    upright = opened(receipt)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90° clockwise
    lying = upright.transpose(Image.Transpose.ROTATE_90)
    assert (
        ImageOps.exif_transpose(Image.open(io.BytesIO(saved(lying, exif=exif)))).size
        == upright.size
    )
    items = [saved(lying, exif=exif), saved(upright.convert("L")), saved(upright, "PDF")]
    photo, gray, file = client.extract(MODEL, items)
    assert [found.text for found in (photo, gray, file)] == [receipt.text] * 3
    assert (photo.width, photo.height) == upright.size
    assert photo.lines == gray.lines
    assert file.lines is None
    assert file.pages is not None
    assert [page.text for page in file.pages] == [receipt.text]


def test_a_page_on_its_head_is_read_from_its_own_top(client: Client) -> None:
    (found,) = client.extract(MODEL, [saved(opened(DRAWN[1]).rotate(180))])
    assert found.text == DRAWN[1].text


def test_what_holds_no_text_and_what_is_no_picture(client: Client) -> None:
    blank = saved(Image.new("RGB", (300, 200), "white"))
    told = client.extract_detailed(MODEL, [blank, b"nonsense", saved(Image.new("L", (1, 1)))])
    assert [*told.errors] == [1]
    assert isinstance(told.errors[1], InvalidItem)
    assert told.found == [
        Extraction(text="", lines=[], width=300, height=200),
        Extraction(text="", lines=[], width=1, height=1),
    ]


def test_a_huge_picture_is_read_in_its_own_pixels(client: Client) -> None:
    upright = opened(DRAWN[1])
    huge = upright.resize((upright.width * 8, upright.height * 8), Image.Resampling.BICUBIC)
    (found,) = client.extract(MODEL, [saved(huge)])
    assert found.text == DRAWN[1].text
    assert found.lines is not None
    assert (found.width, found.height) == huge.size
    assert np.array(found.lines[-1].box).max() > upright.height * 6


def test_a_threshold_of_ones_own(client: Client) -> None:
    (found,) = client.extract(MODEL, [DRAWN[1].png], threshold=1.0)
    assert found.lines is not None
    assert len(found.lines) < len(RECORDED["1"])


def test_without_its_runtimes_packages_callers_are_told_what_to_install(tmp_path: Path) -> None:
    hidden = tmp_path / "sitecustomize.py"
    hidden.write_text("import sys\nsys.modules['onnxruntime'] = None\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    with Serving([], {"PYTHONPATH": path}) as serving:
        answer = httpx.post(f"{serving.url}/v1/extract/{MODEL}", json={"items": ["x"]}, timeout=60)
        assert answer.status_code == 501
        error = answer.json()["error"]
        assert error["code"] == "runtime_missing"
        assert "pip install 'shoal[onnx]'" in error["message"]
        assert "runtime_started" not in serving.log()
