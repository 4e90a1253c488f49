"""Which files of a model may be read, and whether a folder is a model that can be served.

Weights are safetensors: formats that hold pickles or code are never fetched, unpacked or opened.
"""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from shoal.catalog.card import Card
from shoal.catalog.families import FAMILIES
from shoal.catalog.gliner import FILE, SAVE_ANEW
from shoal.errors import SourceError

WEIGHTS = "*.safetensors"
TOKENIZER = "tokenizer.json"
#: Configuration, tokenizer, licence and model card.
TEXT_FILES = ["*.json", "*.txt", "*.md", "*.jinja", "LICENSE*", "artifact.metadata"]
DATA_FILES = [WEIGHTS, *TEXT_FILES]
#: Copies of the weights in other formats, with configuration of their own.
FOREIGN_FOLDERS = ["onnx/*", "openvino/*", "tf_model/*", "flax_model/*", "coreml/*"]

_MAKE_TOKENIZER = (
    "make it with transformers: `AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)`"
)
_MAKE_WEIGHTS = (
    "convert the weights with transformers: "
    "`AutoModel.from_pretrained(FOLDER).save_pretrained(FOLDER)`"
)


def is_data(name: str) -> bool:
    """Whether a file of this name (with '/') is data that may be read."""
    if any(fnmatch(name, pattern) for pattern in FOREIGN_FOLDERS):
        return False
    return any(fnmatch(PurePosixPath(name).name, pattern) for pattern in DATA_FILES)


def check_tokenizer(files: set[str], tokenizer: str, where: str) -> None:
    """Raises `SourceError` if there is neither the tokenizer nor what one is made of."""
    if tokenizer in files or (tokenizer == TOKENIZER and _has_vocabulary(files)):
        return
    pieces = sorted(name for name in files if name.endswith(".model"))
    have = f" (there is a {pieces[0]}, which is not enough)" if pieces else ""
    raise SourceError(f"{where}: has no {tokenizer}{have}; {_made(files, _MAKE_TOKENIZER)}")


def _has_vocabulary(files: set[str]) -> bool:
    """Whether a tokenizer can be made from word pieces or byte pairs, as the worker does."""
    return "vocab.txt" in files or {"vocab.json", "merges.txt"} <= files


def check_weights(files: set[str], where: str) -> None:
    """Raises `SourceError` if there are no safetensors, saying how to make them."""
    if any("/" not in name and fnmatch(name, WEIGHTS) for name in files):
        return
    pickles = sorted(name for name in files if name.endswith((".bin", ".pt", ".pth", ".ckpt")))
    if pickles:
        raise SourceError(
            f"{where}: the weights are only there as {pickles[0]}, a pickle, which may run any "
            f"code and is never loaded; {_made(files, _MAKE_WEIGHTS)}"
        )
    raise SourceError(f"{where}: has no {WEIGHTS}; {_made(files, _MAKE_WEIGHTS)}")


def _made(files: set[str], how: str) -> str:
    """How what is missing is made: `how`, unless gliner must do it."""
    return SAVE_ANEW if FILE in files else how


def check_folder(card: Card, folder: Path) -> None:
    """Raises `SourceError` if `folder` lacks what the card's family needs."""
    family = FAMILIES.get(card.family)
    if family is not None and not family.files:
        return
    files = files_of(folder)
    if not {"config.json", FILE} & files:
        raise SourceError(f"{folder}: has no config.json, so it is not a model of '{card.name}'")
    if family is not None and family.graphs:
        if missing := [name for name in family.graphs if name not in files]:
            raise SourceError(f"{folder}: has no {missing[0]}, which family '{family.name}' needs")
    else:
        check_weights(files, str(folder))
    if card.inputs != ["image"]:  # sound becomes text
        check_tokenizer(files, card.tokenizer, str(folder))


def files_of(folder: Path) -> set[str]:
    """All files below `folder`, as relative paths with '/'."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
