"""PDF files written here, against what is drawn on their pages."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pypdfium2 as pdfium
import pytest
from PIL import Image

from shoal.errors import InvalidItem
from shoal.worker.media import drawer as drawer_module
from shoal.worker.media import drawing
from shoal.worker.media.drawer import drawer
from shoal.worker.media.pages import is_pdf, read_pages
from tests.worker.media.drawn import pixels
from tests.worker.media.hostile import pdf_of_fills

MOST = 4_000_000


def pdf(*sizes: tuple[int, int]) -> bytes:
    """A page of each size, in points, black in its upper left quarter."""
    document = pdfium.PdfDocument.new()
    for width, height in sizes:
        page = document.new_page(width, height)
        black = pdfium.PdfBitmap.from_pil(Image.new("RGB", (4, 4)))
        image = pdfium.PdfImage.new(document)
        image.set_bitmap(black)
        matrix = pdfium.PdfMatrix().scale(width / 2, height / 2).translate(0, height / 2)
        image.set_matrix(matrix)
        page.insert_obj(image)
        page.gen_content()
    file = io.BytesIO()
    document.save(file)
    document.close()
    return file.getvalue()


def as_it_is(page: Image.Image) -> Image.Image:
    return page


def test_one_page_is_held_at_a_time() -> None:
    """A hundred of them, each as large as is allowed, would take 15 GB."""
    drawn: list[weakref.ref[Image.Image]] = []

    def made(page: Image.Image) -> int:
        drawn.append(weakref.ref(page))
        return sum(one() is not None for one in drawn)

    assert read_pages(pdf(*[(72, 72)] * 4), 4, MOST, made) == [1] * 4


def test_a_page_as_thin_as_a_hair_is_drawn_no_longer_than_an_image_may_be() -> None:
    """By its area alone it would be 2.8 thousand million pixels long, of one row each."""
    ((width, height),) = read_pages(
        pdf((72, 72)).replace(b"72 72", b"1000000000 0.00001"), 1, MOST, lambda page: page.size
    )
    assert (width, height) == (65_535, 1)


def test_none_is_drawn_of_more_than_are_wanted() -> None:
    def counted(pages: int) -> None:
        raise InvalidItem(f"{pages} pages")

    drawn: list[Image.Image] = []
    with pytest.raises(InvalidItem, match="3 pages"):
        read_pages(pdf(*[(72, 72)] * 3), 4, MOST, drawn.append, counted)
    with pytest.raises(InvalidItem, match="has 3 pages, and 1 to 2 are taken"):
        read_pages(pdf(*[(72, 72)] * 3), 2, MOST, drawn.append)
    assert not drawn


def test_pages_are_drawn_on_white() -> None:
    first, second = read_pages(pdf((144, 72), (72, 216)), 2, MOST, as_it_is)
    assert first.size == (400, 200)
    assert second.size == (200, 600)
    seen = pixels(first)
    assert (seen[5:95, 5:195] == 0).all()
    assert (seen[105:] == 255).all()
    assert (seen[:, 205:] == 255).all()


def test_a_page_as_large_as_a_house_is_drawn_smaller() -> None:
    (page,) = read_pages(pdf((14_000, 7_000)), 1, MOST, as_it_is)
    assert page.width * page.height <= MOST * 1.01
    assert page.width / page.height == pytest.approx(2, rel=0.01)
    assert np.asarray(page)[0, 0].tolist() == [0, 0, 0]


def test_too_many_pages_are_refused() -> None:
    with pytest.raises(InvalidItem, match=r"has 3 pages, and 1 to 2 are taken \(`media_pages`"):
        read_pages(pdf((72, 72), (72, 72), (72, 72)), 2, MOST, as_it_is)


def test_damaged_files_are_refused() -> None:
    whole = pdf((72, 72))
    for data in (b"%PDF-1.7\nnothing", whole[: len(whole) // 3], b"%PDF-"):
        assert is_pdf(data)
        with pytest.raises(InvalidItem, match="this PDF is damaged, cut off or locked"):
            read_pages(data, 2, MOST, as_it_is)


def test_what_is_one() -> None:
    assert is_pdf(pdf((9, 9)))
    assert is_pdf(b"\n\n" + pdf((9, 9)))
    assert not is_pdf(b"\x89PNG")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file has no more than a moment."""
    monkeypatch.setattr(drawer_module, "FILE_S", 0.3)
    monkeypatch.setattr(drawer_module, "PAGE_S", 0.1)


def test_a_file_that_takes_too_long_ends_its_process_and_nothing_else(hurried: None) -> None:
    """1 kB that would take a minute."""
    began = time.monotonic()
    with pytest.raises(
        InvalidItem, match=r"takes too long to draw: 0\.3 s of processor and 0\.1 s"
    ):
        read_pages(pdf_of_fills(20_000), 1, MOST, as_it_is)
    assert time.monotonic() - began < 20
    assert len(read_pages(pdf((72, 72)), 1, MOST, as_it_is)) == 1


def test_what_takes_no_longer_than_a_file_may_is_drawn() -> None:
    (page,) = read_pages(pdf_of_fills(10), 1, MOST, as_it_is)
    assert (pixels(page) == 0).all()


def test_a_fault_of_what_draws_is_the_files_error() -> None:
    def made(page: Image.Image) -> None:
        assert drawer._process is not None
        drawer._process.kill()

    with pytest.raises(InvalidItem, match="takes down what draws it"):
        read_pages(pdf((72, 72), (72, 72)), 2, MOST, made)
    assert len(read_pages(pdf((72, 72)), 1, MOST, as_it_is)) == 1


def test_what_draws_is_begun_anew_when_it_went_while_nobody_asked() -> None:
    for _ in range(2):
        assert len(read_pages(pdf((72, 72)), 1, MOST, as_it_is)) == 1
        assert drawer._process is not None
        drawer._process.kill()
        drawer._process.wait()


def test_its_end_waits_for_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that ends closes it, and a file of a hundred pages may have minutes left."""
    monkeypatch.setattr(drawer_module, "FILE_S", 60.0)
    own, begun, said = drawer_module.Drawer(), threading.Event(), list[str]()

    def draw() -> None:
        with pytest.raises(InvalidItem) as caught, own.opened(pdf_of_fills(60_000)):
            begun.set()
            own.page(0, MOST)
        said.append(caught.value.message)

    thread = threading.Thread(target=draw)
    thread.start()
    assert begun.wait(30)
    began = time.monotonic()
    own.close()
    assert time.monotonic() - began < 30
    thread.join()
    assert "takes down what draws it" in said[0]


def test_it_imports_nothing_of_the_worker() -> None:
    """It is up in a tenth of a second, and holds no more than what draws."""
    program = str(Path(drawing.__file__))
    watched = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__'); print([m for m in sys.modules if m.partition('.')[0] in ('shoal', 'numpy', 'PIL')])"
    command = [sys.executable, "-P", "-c", watched, program]
    done = subprocess.run(command, input=b"", capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
