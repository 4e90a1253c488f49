"""How models that read pages write them as text, as the files beside their weights say.

An image stands among the tokens of its item, each of which stands for a part of it; a query has
tokens behind it that the model thinks with. Keys and defaults are those of the processors in
transformers (`ColPaliProcessor`). Decides no pixel: those are `preprocessing`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from shoal.catalog.preprocessing import TOGETHER, read_part
from shoal.errors import ModelLoadFailed, reason

#: What stands for a part of an image, and in `PageForm.page` for all of its images.
PLACE = "<image>"
#: With so many tokens behind it every query was trained.
_THOUGHTS = 10


class PageForm(msgspec.Struct, frozen=True):
    """How the items of one model are written, special tokens as their names.

    Attributes:
        page: an image item, with `PLACE` where its image is.
        tokens: that stand for one image.
        before, after: around the text of a query, and of its prompt.
        special: whether the tokenizer puts its own special tokens around all that.
    """

    page: str
    tokens: int
    before: str = ""
    after: str = ""
    special: bool = True

    @property
    def text(self) -> str:
        """An image item."""
        return self.page.replace(PLACE, PLACE * self.tokens)


class _Seen(msgspec.Struct, frozen=True):
    image_seq_length: int | None = None


class _Said(msgspec.Struct, frozen=True):
    visual_prompt_prefix: str | None = None


def _colpali(folder: Path) -> PageForm:
    where, seen = read_part(folder, "image_processor", _Seen)
    if seen.image_seq_length is None:
        raise ModelLoadFailed(f"{where}: lacks image_seq_length, the tokens of an image")
    prompt = _said(folder).visual_prompt_prefix or "Describe the image."
    return PageForm(
        page=f"{PLACE}<bos>{prompt}\n",
        tokens=seen.image_seq_length,
        before="<bos>",
        after="<pad>" * _THOUGHTS + "\n",
        special=False,
    )


def _said(folder: Path) -> _Said:
    path = folder / TOGETHER
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Said)
    except FileNotFoundError:
        return _Said()
    except (OSError, msgspec.MsgspecError) as error:
        raise ModelLoadFailed(f"{path} cannot be read: {reason(error)}") from None


_FORMS: dict[str, Callable[[Path], PageForm]] = {"colpali": _colpali}


def page_form(folder: Path, family: str) -> PageForm | None:
    """How the folder's processor writes pages and queries; None for a family that reads no pages.

    Raises `ModelLoadFailed` naming file and key.
    """
    made = _FORMS.get(family)
    return None if made is None else made(folder)
