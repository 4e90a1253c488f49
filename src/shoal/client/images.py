"""Images that are objects: of Pillow's, which is never imported unless one is given; of numpy's."""

from __future__ import annotations

import io
import sys
from typing import Any

from shoal.errors import InvalidItem

#: PNG's fastest: an image is sent once, and pixels must stay what they are.
_LEVEL = 1
#: What PNG has no form for.
_CONVERTED = ("CMYK", "YCbCr", "LAB", "HSV", "F", "RGBa", "La", "RGBX")


def is_image(given: object) -> bool:
    """Whether it is a PIL image, or an array of pixels: uint8 [height, width, 3]."""
    pillow = sys.modules.get("PIL.Image")
    if pillow is not None and isinstance(given, pillow.Image):
        return True
    shape: tuple[int, ...] = getattr(given, "shape", ())
    return str(getattr(given, "dtype", "")) == "uint8" and len(shape) == 3 and shape[2] in (1, 3, 4)


def png(image: Any, param: str) -> bytes:
    """The image as a PNG file. Raises `InvalidItem`: it cannot be written, or Pillow is missing."""
    try:
        from PIL import Image
    except ImportError:
        raise InvalidItem(
            f"{param} is an array of pixels; that needs Pillow: pip install pillow", param=param
        ) from None
    file = io.BytesIO()
    try:
        if not isinstance(image, Image.Image):
            image = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
        exif = image.getexif()  # it may say which side is up
        plain = image.convert("RGB") if image.mode in _CONVERTED else image
        plain.save(file, "PNG", compress_level=_LEVEL, **({"exif": exif} if exif else {}))
    except (OSError, ValueError, TypeError) as error:
        raise InvalidItem(f"{param}: this image cannot be sent: {error}", param=param) from None
    return file.getvalue()
