"""Images: the bytes of a file to the pixels that a model takes.

Decides what counts as an image, and how one is shown that has no three channels of eight bits:
upright as its EXIF says, alpha on white, the first picture of a moving one. Sizes and filters are
the model's own (`ImageProcessing`); normalising is the runtime's.
"""

from __future__ import annotations

import io
import warnings

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from shoal.catalog.preprocessing import ImageProcessing, Size
from shoal.errors import InvalidItem

Pixels = NDArray[np.uint8]

#: What is read. Pillow knows more, and some of it starts other programs (EPS).
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
#: Samples of 16 bits: Pillow's own conversion to 8 would show all above 255 as white.
_SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")

#: Pixels of a side of a file's picture: as many as JPEG has. A picture of one column needs forty bytes a
#: pixel in Pillow, each row being an allocation of its own.
LONGEST_SIDE = 65_535
#: A JPEG may be written in any number of scans, and each goes over the whole picture, however few its bytes:
#: ten thousand over 49 million gray pixels are 0.9 MB, and take half a minute. Encoders write 10 to 20.
_MOST_SCANS = 100
_SCAN = b"\xff\xda"
#: A TIFF is as many decoders as it has tiles or strips; one for each row is the finest that anyone writes.
_MOST_TILES = LONGEST_SIDE
#: `MAX_IMAGE_SIZE` of Idefics 3's processor.
_LONGEST = 4096

# Sizes are checked below, against the worker's own limit.
Image.MAX_IMAGE_PIXELS = None
# Of damaged EXIF and the like, in files that come from callers: the log is not theirs to fill.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")


def read_image(data: bytes, max_pixels: int) -> Image.Image:
    """The picture in a file, upright, as RGB; its size is looked at before it is decoded.

    Raises:
        InvalidItem: no image of a known format, damaged or cut off, of more pixels or a longer side.
    """
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError:
        known = ", ".join(FORMATS)
        raise InvalidItem(f"this item is no image that can be read; these can: {known}") from None
    except Exception as error:  # what a damaged header raises is up to each format
        raise _damaged(error) from None
    check_pixels(image.width, image.height, max_pixels)
    if max(image.size) > LONGEST_SIDE:
        raise InvalidItem(
            f"this image has {image.width} x {image.height} pixels, and a side at most {LONGEST_SIDE}; "
            "send it in parts"
        )
    _check_work(image, data, max_pixels)
    try:
        image.load()
        return _rgb(_upright(image))
    except (InvalidItem, MemoryError):
        raise
    except Exception as error:  # as above: struct.error, SyntaxError, OSError and others
        raise _damaged(error) from None


def check_pixels(width: int, height: int, most: int) -> None:
    """Raises `InvalidItem` where a picture of this size would have more pixels than `most`."""
    if width * height > most:
        raise InvalidItem(
            f"this image has {width} x {height} pixels, and at most {most} are taken "
            "(`media_pixels` of the worker); send a smaller one"
        )


def _check_work(image: ImageFile.ImageFile, data: bytes, max_pixels: int) -> None:
    """Raises `InvalidItem` where decoding takes far longer than that of the largest picture."""
    if image.format in ("JPEG", "MPO"):
        scans = data.count(_SCAN)  # nowhere else but in the notes beside a picture
        if scans * image.width * image.height > _MOST_SCANS * max_pixels:
            raise InvalidItem(
                f"this image is written in {scans} scans, too many for its size of {image.width} x "
                f"{image.height} pixels; save it anew"
            )
    if len(image.tile) > _MOST_TILES:
        raise InvalidItem(
            f"this image is written in {len(image.tile)} tiles, and at most {_MOST_TILES} are taken; "
            "save it anew, in larger ones"
        )


def _damaged(error: Exception) -> InvalidItem:
    return InvalidItem(f"this image is damaged or cut off: {error}")


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # the notes beside a picture may be broken, and the picture whole
        return image


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in _SIXTEEN_BITS:
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        raise InvalidItem(
            "this image has samples of 32 bits, and no range that says what is white; convert it "
            "to 8 or 16 bits"
        )
    if not image.has_transparency_data:
        return image.convert("RGB")
    image = image.convert("RGBA")
    paper = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(paper, image).convert("RGB")


def fitted(image: Image.Image, processing: ImageProcessing, max_pixels: int) -> Pixels:
    """[height, width, 3] as the model takes it: resized and cropped as its processor would.

    Raises `InvalidItem` where the shape of the image makes that larger than `max_pixels`.
    """
    image = resized(image, processing, max_pixels)
    pixels: Pixels = np.asarray(image, np.uint8)
    return pixels if processing.crop is None else _cropped(pixels, *processing.crop)


def resized(image: Image.Image, processing: ImageProcessing, max_pixels: int) -> Image.Image:
    """The image in the model's size, by its filter. Raises as `fitted`."""
    if (size := processing.resize) is None:
        return image
    width, height = _resized(image.width, image.height, size)
    check_pixels(width, height, max_pixels)
    return image.resize((width, height), Image.Resampling(processing.resample))


def scaled(image: Image.Image, width: int, height: int) -> Pixels:
    """[height, width, 3], every pixel of the image counted."""
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image, np.uint8)


def _resized(width: int, height: int, size: Size) -> tuple[int, int]:
    """Rounded as transformers' `get_resize_output_image_size` rounds, of each processor its own."""
    if size.longest_edge is not None:
        return _stretched(width, height, size.longest_edge)
    if size.shortest_edge is None:
        assert size.width is not None and size.height is not None, "one or the other is given"
        return size.width, size.height
    short, long = min(width, height), max(width, height)
    longer = int(size.shortest_edge * long / short)
    return (size.shortest_edge, longer) if width <= height else (longer, size.shortest_edge)


def _stretched(width: int, height: int, longest: int) -> tuple[int, int]:
    """The longer edge as long as this, the other one in proportion and even; Idefics 3's rounding."""
    shape = width / height
    short = int(longest / shape) if width >= height else int(longest * shape)
    short = max(1, short + short % 2)
    wide, high = (longest, short) if width >= height else (short, longest)
    # What is longer than any of its models reads is cut down once more.
    return (wide, high) if longest <= _LONGEST else _capped(wide, high)


def _capped(width: int, height: int) -> tuple[int, int]:
    shape = width / height
    if width >= height:
        return _LONGEST, max(1, int(_LONGEST / shape))
    return max(1, int(_LONGEST * shape)), _LONGEST


def _cropped(pixels: Pixels, height: int, width: int) -> Pixels:
    """The middle; where the image is smaller it lies on black, as transformers has it."""
    rows, columns = _middle(pixels.shape[0], height), _middle(pixels.shape[1], width)
    whole = np.zeros((height, width, 3), np.uint8)
    whole[rows[1], columns[1]] = pixels[rows[0], columns[0]]
    return whole


def _middle(have: int, want: int) -> tuple[slice, slice]:
    """Along one axis: what is taken, and where it goes."""
    if have >= want:
        start = (have - want) // 2
        return slice(start, start + want), slice(0, want)
    start = -((have - want) // 2)
    return slice(0, have), slice(start, start + have)
