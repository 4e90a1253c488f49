"""A card for a model that has none, from the files that Hugging Face libraries save.

Whatever the files do not say plainly is an error or a note in the card: a wrong guess would
give vectors that look right. Nothing of the model is run.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from shoal.catalog.card import Card, Memory, Source
from shoal.catalog.check import is_hub_id, is_name, problems
from shoal.catalog.encoder import (
    Config,
    check_end,
    check_lowercase,
    family_in,
    max_tokens,
    read_config,
    weights_mb,
)
from shoal.catalog.folder import Found, read_readme
from shoal.catalog.resolve import Catalog
from shoal.catalog.sentence_transformers import Pipeline, read_pipeline
from shoal.catalog.sources.formats import check_tokenizer, check_weights, files_of
from shoal.catalog.tasks import Dense, EncodeTask, Tasks
from shoal.catalog.trained import read_trained
from shoal.errors import CardError, UnknownModel

_NO_PIPELINE = Pipeline(path="", pooling="mean", normalize=True)
_NO_PIPELINE_NOTE = (
    "The model does not say how it pools; mean pooling and normalizing are assumed. "
    "Write a card if it was trained otherwise."
)


def card_for(spec: str, catalog: Catalog, *, cache_dir: str | None, offline: bool) -> Card:
    """The card that `spec` means: a name or alias, a model's folder, or ``org/name`` on the hub.

    Raises:
        UnknownModel: none of these.
        CardError, SourceError: as `infer`.
    """
    if spec in catalog:
        return catalog.card(spec)
    if not (is_path(spec) or is_hub_id(spec)):
        raise UnknownModel(
            f"{catalog.unknown(spec)}; give a name that `shoal models list` shows, "
            "a model's folder (./my-model), or org/name on the hub"
        )
    return infer(spec, cache_dir=cache_dir, offline=offline)


def is_path(spec: str) -> bool:
    """Whether `spec` is meant as a folder: it starts as a path does, or is one."""
    return spec.startswith((".", "/", "~")) or Path(spec).is_dir()


def infer(spec: str, *, cache_dir: str | None = None, offline: bool = False) -> Card:
    """A card for a Hugging Face folder or, if `spec` is no path, a repository on the hub.

    From the hub it fetches configuration and tokenizer, not the weights. The card pins the
    commit that it was inferred from.

    Raises:
        CardError: the architecture or the pooling is one that Shoal does not compute, or the files
            do not say what the model is for.
        SourceError: the files cannot be had, or weights or tokenizer are of no use.
    """
    if is_path(spec):
        given = Path(spec).expanduser().absolute()
        folder = given.resolve()
        # A link is called by its own name, not by that of what it leads to.
        name = _name_of(folder if given.name == ".." else given)
        return _card(_local(folder), name, Source(dir=str(folder)))
    from shoal.catalog.sources import hub

    snapshot = hub.look(spec, None, cache_dir, offline)
    found = Found(snapshot.folder, snapshot.sizes, f"hub model '{spec}'")
    return _card(found, spec, Source(hub=spec, revision=snapshot.commit))


def _local(folder: Path) -> Found:
    if not folder.is_dir():
        raise CardError(f"{folder}: no such folder")
    sizes = {name: (folder / name).stat().st_size for name in files_of(folder)}
    return Found(folder, sizes, str(folder))


def _name_of(folder: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.name).lstrip("-._")[:96]
    if not is_name(name):
        raise CardError(f"{folder}: its name cannot be a model's name; rename it or write a card")
    return name


def _card(found: Found, name: str, source: Source) -> Card:
    trained = read_trained(found)
    pipeline = read_pipeline(found) if trained is None else trained.pipeline
    encoder = _encoder(found, (pipeline or _NO_PIPELINE).path)
    config = read_config(encoder)
    if config is None:
        hint = (
            " (it looks like a folder of cards: pass it with --catalog)"
            if _has_cards(found)
            else ""
        )
        raise CardError(
            f"{found.where}: has no config.json, so it is not a Hugging Face model{hint}"
        )
    family = family_in(config, found, trained=pipeline is not None)
    pipeline = pipeline or _NO_PIPELINE
    check_weights(set(encoder.sizes), encoder.where)
    check_tokenizer(set(encoder.sizes), "tokenizer.json", encoder.where)
    check_lowercase(encoder, pipeline)
    check_end(encoder)
    readme = read_readme(found)
    card = Card(
        name=name,
        description=None if pipeline is not _NO_PIPELINE else _NO_PIPELINE_NOTE,
        source=_below(source, pipeline.path),
        license=readme.license,
        languages=readme.languages,
        family=family.name,
        inputs=["text"] if trained is None else [*trained.inputs],
        tasks=Tasks(encode=_encode(config, pipeline, found)) if trained is None else trained.tasks,
        max_tokens=max_tokens(encoder, config, family, pipeline),
        memory=Memory(weights_mb=weights_mb(encoder)),
    )
    for path, problem in problems(card):
        raise CardError(f"{found.where}: inferred {'.'.join(path)}: {problem}")
    return card


def _encoder(found: Found, path: str) -> Found:
    """The part of `found` below `path`, where older models keep the encoder."""
    if not path:
        return found
    prefix = f"{path}/"
    sizes = {n.removeprefix(prefix): s for n, s in found.sizes.items() if n.startswith(prefix)}
    return Found(found.folder / path, sizes, f"{found.where}/{path}")


def _below(source: Source, path: str) -> Source:
    if not path:
        return source
    if source.dir is not None:
        return Source(dir=f"{source.dir}/{path}")
    return msgspec.structs.replace(source, path=path)


def _has_cards(found: Found) -> bool:
    return any(name.endswith((".yaml", ".yml")) for name in found.sizes)


def _encode(config: Config, pipeline: Pipeline, found: Found) -> EncodeTask:
    width = config.width
    if width is None:
        raise CardError(f"{found.where}: config.json lacks hidden_size")
    if pipeline.dim is not None and pipeline.dim != width:
        raise CardError(
            f"{found.where}: pooling expects vectors of {pipeline.dim}, the encoder gives {width}"
        )
    return EncodeTask(
        dense=Dense(
            pipeline.projected_dim or width,
            pipeline.pooling,
            pipeline.normalize,
            pipeline.projections,
        ),
        prompts=pipeline.prompts,
        default_prompt=pipeline.default_prompt,
        instruction_prompt=pipeline.instruction_prompt,
    )
