"""Files as people send them, against what they show; sizes and filters against transformers."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageSequence
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.efficientnet.image_processing_pil_efficientnet import (
    EfficientNetImageProcessorPil,
)
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from shoal.catalog.preprocessing import image_processing
from shoal.errors import InvalidItem
from shoal.worker.media.images import fitted, read_image
from tests.worker.media.drawn import picture, pixels, saved
from tests.worker.media.hostile import jpeg_of_scans, tiff_of_tiles

MOST = 1_000_000


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("WEBP", {"lossless": True}),
        ("BMP", {}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
    ],
)
def test_lossless_formats_give_what_was_saved(kind: str, options: dict[str, Any]) -> None:
    image = read_image(saved(picture(), kind, **options), MOST)
    np.testing.assert_array_equal(pixels(image), pixels(picture()))


@pytest.mark.parametrize(
    ("kind", "options"), [("JPEG", {"quality": 95}), ("WEBP", {}), ("GIF", {})]
)
def test_other_formats_come_near_it(kind: str, options: dict[str, Any]) -> None:
    image = read_image(saved(picture(), kind, **options), MOST)
    away = np.abs(pixels(image).astype(int) - pixels(picture()))
    assert away.mean() < 12
    assert image.mode == "RGB"


#: What EXIF says -> how the stored picture came from the one seen: stored = seen turned so.
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("orientation", TURNS)
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
def test_exif_orientation_is_followed(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    lossless = {"lossless": True} if kind == "WEBP" else {}
    stored = picture().transpose(TURNS[orientation])
    image = read_image(saved(stored, kind, exif=exif, **lossless), MOST)
    np.testing.assert_array_equal(pixels(image), pixels(picture()))


def test_a_picture_with_broken_exif_is_still_one() -> None:
    data = saved(picture(), "PNG", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\x01\x12")
    np.testing.assert_array_equal(pixels(read_image(data, MOST)), pixels(picture()))


def test_alpha_lies_on_white() -> None:
    image = picture()
    alpha = Image.linear_gradient("L").resize(image.size)
    image.putalpha(alpha)
    seen = pixels(read_image(saved(image, "PNG"), MOST)).astype(int)
    share = np.asarray(alpha, float)[..., None] / 255
    np.testing.assert_allclose(seen, pixels(picture()) * share + 255 * (1 - share), atol=1)


def test_a_gray_picture_with_alpha_lies_on_white() -> None:
    image = Image.merge("LA", (Image.new("L", (4, 4), 10), Image.new("L", (4, 4), 0)))
    assert (pixels(read_image(saved(image, "PNG"), MOST)) == 255).all()


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_a_palette_with_a_transparent_colour_lies_on_white(kind: str) -> None:
    image = Image.new("P", (4, 4), 1)
    image.putpalette([0, 0, 0, 200, 10, 20, 7, 7, 7])
    image.putpixel((0, 0), 2)
    seen = pixels(read_image(saved(image, kind, transparency=2), MOST))
    assert seen[0, 0].tolist() == [255, 255, 255]
    assert seen[1, 1].tolist() == [200, 10, 20]


def test_a_palette_keeps_its_colours() -> None:
    image = picture().quantize(16)
    seen = read_image(saved(image, "PNG"), MOST)
    np.testing.assert_array_equal(pixels(seen), pixels(image.convert("RGB")))


@pytest.mark.parametrize("mode", ["L", "1"])
def test_gray_and_black_and_white_are_shown_in_three_channels(mode: str) -> None:
    image = picture().convert(mode)
    seen = pixels(read_image(saved(image, "PNG"), MOST))
    np.testing.assert_array_equal(seen, pixels(image.convert("RGB")))
    assert (seen[..., 0] == seen[..., 2]).all()


def test_cmyk_from_a_print_shop_is_no_negative() -> None:
    flat = Image.new("RGB", (32, 32), (200, 60, 30))
    seen = pixels(read_image(saved(flat.convert("CMYK"), "JPEG", quality=95), MOST)).astype(int)
    assert np.abs(seen - [200, 60, 30]).max() < 8


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_and_not_clipped(kind: str) -> None:
    ramp = np.linspace(0, 65535, 64, dtype=np.uint16)[None].repeat(4, 0)
    seen = pixels(read_image(saved(Image.fromarray(ramp), kind), MOST))
    np.testing.assert_array_equal(seen[..., 1], ramp >> 8)


@pytest.mark.parametrize("mode", ["F", "I"])
def test_samples_without_a_known_range_are_refused(mode: str) -> None:
    with pytest.raises(InvalidItem, match=r"samples of 32 bits.*convert it"):
        read_image(saved(Image.new(mode, (4, 4), 1), "TIFF"), MOST)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_a_moving_picture_the_first_is_taken(kind: str) -> None:
    colours = [(250, 0, 0), (0, 250, 0), (0, 0, 250)]
    first, *others = [Image.new("RGB", (16, 16), colour) for colour in colours]
    lossless = {"lossless": True} if kind == "WEBP" else {}
    data = saved(first, kind, save_all=True, append_images=others, **lossless)
    with Image.open(io.BytesIO(data)) as stored:
        assert len(list(ImageSequence.Iterator(stored))) == 3
    assert (pixels(read_image(data, MOST)) == [250, 0, 0]).all()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
@pytest.mark.parametrize("left", [0.05, 0.5, 0.9])
def test_what_is_cut_off_is_refused(kind: str, left: float) -> None:
    data = saved(picture(200, 160), kind)
    with pytest.raises(InvalidItem, match=r"damaged or cut off|no image that can be read"):
        read_image(data[: int(len(data) * left)], MOST)


@pytest.mark.parametrize("data", [b"", b"hello", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"\0" * 500])
def test_what_is_no_image_is_refused_and_says_what_would_be(data: bytes) -> None:
    with pytest.raises(InvalidItem, match="no image that can be read; these can: JPEG, PNG"):
        read_image(data, MOST)


def test_noise_in_a_file_harms_nobody() -> None:
    rng = np.random.default_rng(1)
    for kind in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"):
        whole = saved(picture(), kind)
        for _ in range(40):
            bad = bytearray(whole)
            for at in rng.integers(0, len(bad), 6):
                bad[at] = rng.integers(0, 256)
            try:
                read_image(bytes(bad), MOST)
            except InvalidItem:
                continue


def bomb(width: int, height: int) -> bytes:
    """The header of a PNG of this size, and none of its pixels."""

    def chunk(name: bytes, body: bytes) -> bytes:
        crc = zlib.crc32(name + body)
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", crc)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b""))


@pytest.mark.parametrize(("width", "height"), [(1001, 1000), (100_000, 100_000)])
def test_a_bomb_is_refused_by_its_header(width: int, height: int) -> None:
    # Nothing of the picture is there, so decoding would say that it is cut off.
    with pytest.raises(InvalidItem, match=rf"has {width} x {height} pixels, and at most 1000000"):
        read_image(bomb(width, height), MOST)


def test_a_thin_picture_that_would_grow_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text("{}")
    thin = read_image(saved(Image.new("RGB", (1, 50_000)), "PNG"), MOST)
    with pytest.raises(InvalidItem, match="224 x 11200000 pixels"):
        fitted(thin, image_processing(tmp_path, "clip"), MOST)


PROCESSORS: list[tuple[str, Any, dict[str, Any]]] = [
    ("clip", CLIPImageProcessorPil, {}),
    ("clip", CLIPImageProcessorPil, {"size": 30, "crop_size": 30, "resample": 3}),
    ("clip", CLIPImageProcessorPil, {"size": {"shortest_edge": 20}, "crop_size": 33}),
    ("clip", CLIPImageProcessorPil, {"do_resize": False, "crop_size": {"height": 7, "width": 90}}),
    ("siglip", SiglipImageProcessorPil, {}),
    ("siglip", SiglipImageProcessorPil, {"size": {"height": 33, "width": 21}, "resample": 2}),
    ("vit", ViTImageProcessorPil, {}),
    ("vit", ViTImageProcessorPil, {"size": 50, "image_mean": [0.1, 0.2, 0.3]}),
    ("efficientnet", EfficientNetImageProcessorPil, {}),
    (
        "efficientnet",
        EfficientNetImageProcessorPil,
        {"size": 60, "resample": 0, "include_top": False},
    ),
    (
        "efficientnet",
        EfficientNetImageProcessorPil,
        {"rescale_offset": True, "rescale_factor": 1 / 127.5},
    ),
]


@pytest.mark.parametrize(("family", "kind", "options"), PROCESSORS)
@pytest.mark.parametrize("size", [(61, 40), (40, 61), (300, 299), (8, 97)])
def test_sizes_and_filters_are_those_of_transformers(
    tmp_path: Path, family: str, kind: Any, options: dict[str, Any], size: tuple[int, int]
) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(options))
    processing = image_processing(tmp_path, family)
    image = picture(*size)
    ours = fitted(image, processing, MOST)
    raw = {"do_rescale": False, "do_normalize": False, "include_top": False}
    theirs = kind(**(options | raw))(image, return_tensors="np").pixel_values[0]
    np.testing.assert_array_equal(ours, np.moveaxis(theirs, 0, 2))
    seen = kind(**options)(image, return_tensors="np").pixel_values[0]
    scaled = ours * np.array(processing.scale) + np.array(processing.shift)
    np.testing.assert_allclose(scaled, np.moveaxis(seen, 0, 2), atol=3e-6, rtol=2e-6)


def test_a_picture_of_one_column_is_refused_by_its_header() -> None:
    """Of as many pixels as are taken it would need 2 GB."""
    with pytest.raises(InvalidItem, match="1 x 70000 pixels, and a side at most 65535"):
        read_image(saved(picture(1, 70_000), "PNG"), 50_000_000)


@pytest.mark.parametrize("scans", [1, 10, 100])
def test_pictures_in_as_many_scans_as_encoders_write_are_read(scans: int) -> None:
    assert read_image(jpeg_of_scans(1000, 1000, scans), MOST).size == (1000, 1000)
    assert read_image(saved(picture(), "JPEG", progressive=True), MOST).size == picture().size


def test_scans_over_the_whole_of_a_large_picture_are_bounded() -> None:
    """0.9 MB of them may keep a thread busy for half a minute."""
    with pytest.raises(
        InvalidItem, match="written in 101 scans, too many for its size of 1000 x 1000"
    ):
        read_image(jpeg_of_scans(1000, 1000, 101), MOST)
    assert read_image(jpeg_of_scans(100, 100, 1000), MOST).size == (100, 100)


def test_a_picture_of_more_tiles_than_anyone_writes_is_refused() -> None:
    assert read_image(tiff_of_tiles(20, 5), MOST).size == (320, 80)
    with pytest.raises(InvalidItem, match="written in 67600 tiles"):
        read_image(tiff_of_tiles(260, 260), 50_000_000)


def test_damaged_exif_does_not_fill_the_log(tmp_path: Path) -> None:
    """Pillow warns of it, a line for each such file that a caller sends."""
    file = tmp_path / "cut.jpg"
    file.write_bytes(saved(picture(), "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\xff\0\x12\x01"))
    read = f"read_image(open({str(file)!r}, 'rb').read(), 1_000_000)"
    code = f"from shoal.worker.media.images import read_image; {read}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stderr == b""
