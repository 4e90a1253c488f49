"""How a model wants images and sound, as the files beside its weights say.

Two sides read it: the worker resizes and crops, the runtime normalises. Keys and defaults are those
of the processors in transformers; whatever would compute otherwise is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from shoal.errors import ModelLoadFailed, reason

#: The files that say it, newest habit last: a processor of several kinds has one file with parts.
ALONE, TOGETHER = "preprocessor_config.json", "processor_config.json"

Channels = tuple[float, float, float]
Stored = TypeVar("Stored", bound=msgspec.Struct)

_HALF: Channels = (0.5, 0.5, 0.5)
_CLIP_MEAN: Channels = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD: Channels = (0.26862954, 0.26130258, 0.27577711)

#: Filters as Pillow numbers them.
NEAREST, LANCZOS, BILINEAR, BICUBIC, BOX, HAMMING = range(6)


class Size(msgspec.Struct, frozen=True):
    """`height` and `width`, or only the `shortest_edge` or `longest_edge`, which keep the shape."""

    height: int | None = None
    width: int | None = None
    shortest_edge: int | None = None
    longest_edge: int | None = None


class ImageProcessing(msgspec.Struct, frozen=True):
    """What happens to an image before a model sees it.

    Attributes:
        resize: to what, by `resample`, one of Pillow's filters; None: not at all.
        crop: height and width of the middle that is kept; None: all of it.
        scale, shift: of each channel; the model sees ``byte * scale + shift``.
        tile: side of the squares that an image is seen in; None: it is seen at once.
        split: whether an image is cut into such squares, and seen whole too; else only whole.
    """

    resize: Size | None
    resample: int
    crop: tuple[int, int] | None
    scale: Channels
    shift: Channels
    tile: int | None = None
    split: bool = True

    @property
    def shape(self) -> tuple[int, int] | None:
        """Height and width that every image has in the end; None where they differ."""
        if self.tile is not None:
            return self.tile, self.tile
        if self.crop is not None:
            return self.crop
        size = self.resize
        if size is None or size.height is None or size.width is None:
            return None
        return size.height, size.width


class SoundProcessing(msgspec.Struct, frozen=True):
    """Mel spectrograms as the folder's model was trained on; lengths in samples.

    Attributes:
        feature_size: mel bins. chunk_length: seconds that one sequence may have.
    """

    feature_size: int = 80
    sampling_rate: int = 16000
    hop_length: int = 160
    n_fft: int = 400
    chunk_length: float = 30

    @property
    def chunk_samples(self) -> int:
        return int(self.chunk_length * self.sampling_rate)


class _StoredImages(msgspec.Struct, frozen=True):
    do_resize: bool = True
    size: int | list[int] | dict[str, int | None] | None = None
    resample: int | None = None
    do_center_crop: bool | None = None
    crop_size: int | list[int] | dict[str, int | None] | None = None
    do_rescale: bool = True
    rescale_factor: float = 1 / 255
    rescale_offset: bool = False
    do_normalize: bool = True
    image_mean: Channels | None = None
    image_std: Channels | None = None
    include_top: bool | None = None
    do_pad: bool | None = None
    max_image_size: dict[str, int] | None = None
    do_image_splitting: bool = True


class _Defaults(msgspec.Struct, frozen=True):
    """What a family's processor does where the file is silent.

    `keeps_shape`: a single number is the shortest edge, not both. `twice`: the deviation divides
    once more (`include_top`). `tile`: side of the squares that images are seen in.
    """

    size: Size
    resample: int
    crop: tuple[int, int] | None = None
    mean: Channels = _HALF
    std: Channels = _HALF
    keeps_shape: bool = False
    twice: bool = False
    tile: int | None = None


_DEFAULTS: dict[str, _Defaults] = {
    "clip": _Defaults(
        Size(shortest_edge=224), BICUBIC, (224, 224), _CLIP_MEAN, _CLIP_STD, keeps_shape=True
    ),
    "siglip": _Defaults(Size(224, 224), BICUBIC, keeps_shape=True),
    "colmodernvbert": _Defaults(Size(longest_edge=1456), LANCZOS, tile=364),
    "idefics3": _Defaults(Size(longest_edge=1456), LANCZOS, tile=364),
    "colpali": _Defaults(Size(224, 224), BICUBIC, keeps_shape=True),
    "vit": _Defaults(Size(224, 224), BILINEAR),
    "efficientnet": _Defaults(Size(346, 346), BICUBIC, twice=True),
}


def image_processing(folder: Path, family: str) -> ImageProcessing:
    """What the folder's image processor does. Raises `ModelLoadFailed` naming file and key."""
    where, stored = read_part(folder, "image_processor", _StoredImages)
    default = _DEFAULTS.get(family)
    if default is None:
        raise ModelLoadFailed(f"{where}: nothing is known of images for family '{family}'")
    # Squares of one size need no padding.
    if stored.do_pad and default.tile is None:
        raise ModelLoadFailed(f"{where}: `do_pad` is not supported")
    return ImageProcessing(
        resize=_size(where, stored.size, default) if stored.do_resize else None,
        resample=_filter(where, stored.resample, default),
        crop=_crop(where, stored, default),
        scale=_scale(stored, default),
        shift=_shift(stored, default),
        tile=default.tile and (stored.max_image_size or {}).get("longest_edge", default.tile),
        split=stored.do_image_splitting,
    )


def sound_processing(folder: Path) -> SoundProcessing:
    """What the folder's feature extractor does. Raises `ModelLoadFailed` naming file and key."""
    return read_part(folder, "feature_extractor", SoundProcessing)[1]


def read_part(folder: Path, part: str, kind: type[Stored]) -> tuple[Path, Stored]:
    """What one processor of the folder is set to, and the file that says it. Raises `ModelLoadFailed`."""
    path = folder / ALONE
    try:
        if path.is_file():
            return path, msgspec.json.decode(path.read_bytes(), type=kind)
        path = folder / TOGETHER
        parts = msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
        if part not in parts:
            raise ModelLoadFailed(f"{path} has no `{part}`, and {folder / ALONE} is missing")
        return path, msgspec.json.decode(parts[part], type=kind)
    except FileNotFoundError:
        raise ModelLoadFailed(
            f"{folder} has neither {ALONE} nor {TOGETHER}, which say what the model takes"
        ) from None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ModelLoadFailed(f"{path} cannot be read: {reason(error)}") from None


def _size(
    where: Path, stored: int | list[int] | dict[str, int | None] | None, default: _Defaults
) -> Size:
    match stored:
        case None:
            return default.size
        case int():
            return Size(shortest_edge=stored) if default.keeps_shape else Size(stored, stored)
        case [int(height), int(width)]:
            return Size(height, width)
        case {"height": int(height), "width": int(width)}:
            return Size(height, width)
        case {"longest_edge": int(edge), **rest} if default.tile and not any(rest.values()):
            return Size(longest_edge=edge)
        case {"shortest_edge": int(edge), **rest} if not default.tile and not any(rest.values()):
            return Size(shortest_edge=edge)
    raise ModelLoadFailed(
        f"{where}: size {stored} is not supported; give height and width, or "
        f"{'longest' if default.tile else 'shortest'}_edge"
    )


def _filter(where: Path, stored: int | None, default: _Defaults) -> int:
    resample = default.resample if stored is None else stored
    if resample not in range(HAMMING + 1):
        raise ModelLoadFailed(f"{where}: resample {resample} is no filter; they go from 0 to 5")
    return resample


def _crop(where: Path, stored: _StoredImages, default: _Defaults) -> tuple[int, int] | None:
    if not (default.crop is not None if stored.do_center_crop is None else stored.do_center_crop):
        return None
    match stored.crop_size:
        case None if default.crop is not None:
            return default.crop
        case int(edge):
            return edge, edge
        case [int(height), int(width)]:
            return height, width
        case {"height": int(height), "width": int(width)}:
            return height, width
    raise ModelLoadFailed(f"{where}: crop_size {stored.crop_size} lacks a height and a width")


def _scale(stored: _StoredImages, default: _Defaults) -> Channels:
    factor = stored.rescale_factor if stored.do_rescale else 1.0
    red, green, blue = _divisors(stored, default)
    return factor / red, factor / green, factor / blue


def _shift(stored: _StoredImages, default: _Defaults) -> Channels:
    mean = (stored.image_mean or default.mean) if stored.do_normalize else (0.0, 0.0, 0.0)
    offset = 1.0 if stored.do_rescale and stored.rescale_offset else 0.0
    red, green, blue = _divisors(stored, default)
    return -(mean[0] + offset) / red, -(mean[1] + offset) / green, -(mean[2] + offset) / blue


def _divisors(stored: _StoredImages, default: _Defaults) -> Channels:
    """What is divided by, in all: the deviation once, twice or not at all."""
    std = stored.image_std or default.std
    twice = default.twice if stored.include_top is None else stored.include_top
    times = stored.do_normalize + twice
    return std[0] ** times, std[1] ** times, std[2] ** times
