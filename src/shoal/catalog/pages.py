"""How models that read images among tokens write them as text, as the files beside their weights say.

An image stands among the tokens of its item, each of which stands for a part of it; a query has
tokens behind it that the model thinks with. Keys and defaults are those of the processors in
transformers (`ColPaliProcessor`, `ColModernVBertProcessor`, `Idefics3Processor`). Decides no pixel: those are `preprocessing`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from shoal.catalog.document import read_json
from shoal.catalog.preprocessing import TOGETHER, read_part
from shoal.errors import ModelLoadFailed

#: What stands for a part of an image, and in `PageForm.page` for all of its images.
PLACE = "<image>"
#: Stands around the images of the Idefics 3 line.
_FENCE = "<fake_token_around_image>"
#: With so many tokens behind it every query was trained.
_THOUGHTS = 10


class PageForm(msgspec.Struct, frozen=True):
    """How the items of one model are written, special tokens as their names.

    Attributes:
        page: an item that is an image, with `PLACE` where that is.
        tokens: that stand for one image, or one square that it was cut into.
        fenced: whether each square has its row and column said before it.
        before, after: around the text of a query, and of its prompt.
        special: whether the tokenizer puts its own special tokens around all that.
    """

    page: str
    tokens: int
    fenced: bool = False
    before: str = ""
    after: str = ""
    special: bool = True

    def text(self, rows: int = 0, columns: int = 0) -> str:
        """An item that is an image; as `image`."""
        return self.page.replace(PLACE, self.image(rows, columns))

    def image(self, rows: int = 0, columns: int = 0) -> str:
        """What stands for an image; `rows`, `columns`: of squares that come before the whole; 0: none do."""
        image = PLACE * self.tokens
        if not self.fenced:
            return image
        squares = "".join(
            "".join(f"{_FENCE}<row_{row}_col_{column}>{image}" for column in _counted(columns))
            + "\n"
            for row in _counted(rows)
        )
        return f"{squares}{chr(10) if rows else ''}{_FENCE}<global-img>{image}{_FENCE}"


def _counted(most: int) -> range:
    return range(1, most + 1)


class _Seen(msgspec.Struct, frozen=True):
    image_seq_length: int | None = None


class Processor(msgspec.Struct, frozen=True):
    """What the file of processors of several kinds says of texts."""

    visual_prompt_prefix: str | None = None
    query_prefix: str | None = None
    image_seq_len: int | None = None


def _colpali(folder: Path) -> PageForm:
    where, seen = read_part(folder, "image_processor", _Seen)
    if seen.image_seq_length is None:
        raise ModelLoadFailed(f"{where}: lacks image_seq_length, the tokens of an image")
    prompt = (
        read_json(folder / TOGETHER, Processor, Processor()).visual_prompt_prefix
        or "Describe the image."
    )
    return PageForm(
        page=f"{PLACE}<bos>{prompt}\n",
        tokens=seen.image_seq_length,
        before="<bos>",
        after="<pad>" * _THOUGHTS + "\n",
        special=False,
    )


def _colmodernvbert(folder: Path) -> PageForm:
    said = read_json(folder / TOGETHER, Processor, Processor())
    return PageForm(
        page=said.visual_prompt_prefix
        or f"<|begin_of_text|>User:{PLACE}Describe the image.<end_of_utterance>\nAssistant:",
        tokens=said.image_seq_len or 64,
        fenced=True,
        after="<end_of_utterance>" * _THOUGHTS,
    )


def _idefics3(folder: Path) -> PageForm:
    said = read_json(folder / TOGETHER, Processor, Processor())
    return PageForm(page=PLACE, tokens=said.image_seq_len or 169, fenced=True)


_FORMS: dict[str, Callable[[Path], PageForm]] = {
    "colmodernvbert": _colmodernvbert,
    "colpali": _colpali,
    "idefics3": _idefics3,
}


#: What comes before a query where nothing is said.
_PREFIXES = {"colpali": "Question: "}


def query_prefix(said: Processor, family: str) -> str:
    """What comes before the text of a query: the prompt ``query`` of a card."""
    return _PREFIXES.get(family, "") if said.query_prefix is None else said.query_prefix


def page_form(folder: Path, family: str) -> PageForm | None:
    """How the folder's processor writes images and queries; None for a family that reads no images so.

    Raises `ModelLoadFailed` naming file and key.
    """
    made = _FORMS.get(family)
    return None if made is None else made(folder)
