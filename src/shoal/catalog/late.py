"""What a model of late interaction is, from the files that PyLate or ColBERT's own library saved.

Source: `pylate.models.colbert` for what holds where its files say nothing.
"""

from __future__ import annotations

import string

import msgspec

from shoal.catalog.encoder import Config
from shoal.catalog.folder import Found
from shoal.catalog.sentence_transformers import Module, model_of, projected
from shoal.catalog.tasks import EncodeTask, Multivector, ScoreTask, Tasks
from shoal.errors import CardError

#: ColBERT's own library: what it is called in config.json, and the file of its settings.
_STANFORD, _ARTIFACT = "HF_ColBERT", "artifact.metadata"


class Late(msgspec.Struct, frozen=True):
    """`max_tokens`: of a document, its special tokens and marker included."""

    tasks: Tasks
    max_tokens: int


class _PyLate(msgspec.Struct):
    """The keys of `config_sentence_transformers.json` that PyLate adds."""

    query_prefix: str | None = None
    document_prefix: str | None = None
    query_length: int | None = None
    document_length: int | None = None
    do_query_expansion: bool | None = None
    attend_to_expansion_tokens: bool | None = None
    skiplist_words: list[str] | None = None


class _Artifact(msgspec.Struct):
    """The keys of `artifact.metadata` that change what is computed."""

    dim: int
    query_maxlen: int = 32
    doc_maxlen: int = 180
    query_token_id: str = "[unused0]"  # noqa: S105  # a word of the vocabulary
    doc_token_id: str = "[unused1]"  # noqa: S105
    mask_punctuation: bool = True
    attend_to_mask_tokens: bool = False
    similarity: str = "cosine"


def read_late(found: Found, config: Config) -> Late | None:
    """None: it compares no tokens. Raises `CardError` for what Shoal does not compute."""
    if _STANFORD in (config.architectures or []):
        return _stanford(found)
    modules = found.read("modules.json", list[Module]) or []
    if any(module.type.startswith("pylate.") for module in modules):
        return _pylate(found, modules)
    return None


def _stanford(found: Found) -> Late:
    said = found.read(_ARTIFACT, _Artifact)
    if said is None:
        raise CardError(f"{found.where}: {_ARTIFACT} is missing, which says how it compares")
    if said.similarity != "cosine":
        raise CardError(f"{found.where}: compares by {said.similarity}; computed is cosine")
    _check_seen(found, f"attend_to_mask_tokens of {_ARTIFACT}", seen=said.attend_to_mask_tokens)
    skip = list(string.punctuation) if said.mask_punctuation else []
    vectors = Multivector(said.dim, query_tokens=said.query_maxlen, skip=skip)
    return Late(_tasks(vectors, said.query_token_id, said.doc_token_id), said.doc_maxlen)


def _pylate(found: Found, modules: list[Module]) -> Late:
    kinds = [module.type.rpartition(".")[2] for module in modules]
    if len(kinds) < 2 or kinds != ["Transformer", *["Dense"] * (len(kinds) - 1)]:
        raise CardError(
            f"{found.where}: modules.json has {' + '.join(kinds)}; supported of PyLate is "
            "Transformer + Dense"
        )
    if modules[0].path:
        raise CardError(f"{found.where}: its encoder lies in {modules[0].path}, not beside Dense")
    said = found.read("config_sentence_transformers.json", _PyLate) or _PyLate()
    seen = bool(said.attend_to_expansion_tokens)
    _check_seen(found, "attend_to_expansion_tokens", seen=seen)
    paths = [module.path for module in modules[1:]]
    vectors = Multivector(
        projected(found, paths),
        projections=paths,
        query_tokens=said.query_length or 32,
        fill=said.do_query_expansion is not False,
        skip=list(string.punctuation) if said.skiplist_words is None else said.skiplist_words,
    )
    markers = {
        "query": "[Q] " if said.query_prefix is None else said.query_prefix,
        "document": "[D] " if said.document_prefix is None else said.document_prefix,
    }
    # A text that its author puts before others as well stands behind the marker.
    texts = {name: text for name, text in model_of(found).texts.items() if text}
    if strange := texts.keys() - markers.keys():
        raise CardError(
            f"{found.where}: has a prompt '{min(strange)}', and its markers are of queries and "
            "documents; write a card"
        )
    query, document = (marker + texts.get(name, "") for name, marker in markers.items())
    return Late(_tasks(vectors, query, document), said.document_length or 180)


def _tasks(vectors: Multivector, query: str, document: str) -> Tasks:
    prompts = {"query": query, "document": document}
    return Tasks(EncodeTask(multivector=vectors, prompts=prompts), ScoreTask("maxsim"))


def _check_seen(found: Found, key: str, *, seen: bool) -> None:
    """What queries are filled with is computed and seen by no token."""
    if seen:
        raise CardError(
            f"{found.where}: {key} is set, and what fills a query is not attended to here"
        )
