"""A model as found: the files of a folder or repository, of which the small ones can be read."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from shoal.errors import CardError, reason

T = TypeVar("T")


class Found(msgspec.Struct, frozen=True):
    """Files to infer a card from.

    Attributes:
        folder: holds at least the configuration and tokenizer files.
        sizes: every file of the model, also those not fetched, in bytes.
        where: the folder or repository as the user knows it, for messages.
    """

    folder: Path
    sizes: dict[str, int]
    where: str

    def read(self, name: str, kind: type[T]) -> T | None:
        """A JSON file as `kind`, or None if there is none. Raises `CardError` naming the file."""
        path = self.folder / name
        if name not in self.sizes or not path.is_file():
            return None
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CardError(f"{self.where}: {name} cannot be read: {reason(error)}") from None


class ModelCard(msgspec.Struct, frozen=True):
    """What the front matter of a README says."""

    license: str | None = None
    languages: list[str] = []


def read_readme(found: Found) -> ModelCard:
    """Licence and languages from README.md; empty where it says nothing that can be read."""
    try:
        text = (found.folder / "README.md").read_text()
    except (OSError, UnicodeDecodeError):
        return ModelCard()
    start, _, rest = text.partition("---\n")
    if start.strip() or "\n---" not in rest:
        return ModelCard()
    try:
        # BaseLoader keeps every value a string, so that the language `no` stays Norwegian.
        said = yaml.load(rest.partition("\n---")[0], Loader=yaml.BaseLoader)  # noqa: S506
    except (yaml.YAMLError, RecursionError):
        return ModelCard()
    return _model_card(said) if isinstance(said, dict) else ModelCard()


def _model_card(said: dict[str, object]) -> ModelCard:
    name = said.get("license")
    if name == "other":
        name = said.get("license_name", name)
    languages = said.get("language", [])
    languages = [languages] if isinstance(languages, str) else languages
    return ModelCard(
        name if isinstance(name, str) and name else None,
        [lang for lang in languages if isinstance(lang, str)]
        if isinstance(languages, list)
        else [],
    )
