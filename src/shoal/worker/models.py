"""Cards as the worker uses them: what the core must know, what a runtime is told, how items are prepared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from shoal.catalog.card import Card, Profile
from shoal.catalog.document import read_json
from shoal.catalog.encoder import Config
from shoal.catalog.families import FAMILIES
from shoal.catalog.fetch import fetch
from shoal.core.batcher import Budget
from shoal.core.cost import TERMS, Work
from shoal.core.models import ModelSpec
from shoal.errors import ModelLoadFailed
from shoal.runtimes.packages import missing
from shoal.settings import CommonSettings, WorkerSettings
from shoal.wire.socket import Load
from shoal.worker.holding import activation_bytes, keys_bytes, tensor_bytes, weights_bytes
from shoal.worker.media import DecodingPreparer, MediaPreparer, decodes
from shoal.worker.prepared import Preparer
from shoal.worker.text import PlainPreparer, TextPreparer

#: A load starts with some tenths of a second of work that no byte accounts for ...
LOAD_BASE_S = 0.3
#: ... and reads and places the rest at about the speed of an SSD.
LOAD_BYTES_S = 500e6
#: What the card calls the rate of each term of a batch's cost.
_RATES = {
    "tokens": "token_s",
    "tokens_squared": "square_s",
    "items": "item_s",
    "new_tokens": "new_token_s",
}


def spec_of(
    card: Card, profile: Profile, folder: Path | None = None, device: str = "cpu"
) -> ModelSpec:
    """What the core must know to schedule this card with this profile.

    Images and sound too are priced by tokens: decoded ones count as the longest text, as the model
    sees all of them in one size. `folder`: of its files; None: they are to be fetched. So is
    a model whose runtime lacks packages, which is found out then.
    """
    seed, held_mb = profile.cost, profile.held_mb or card.memory.held_mb
    work: Work = "text" if card.tasks.generate is None else "generate"
    said = int((card.memory.weights_mb or 0) * 1e6)
    weights = said if said or folder is None else weights_bytes(folder)
    tensors = said if folder is None else tensor_bytes(folder, profile, device)
    return ModelSpec(
        name=card.name,
        kind=profile.runtime,
        max_tokens=card.max_tokens,
        budget=Budget(profile.max_batch_seconds, profile.max_batch_tokens, profile.max_batch_items),
        cost_seed=(seed.base_s, *(getattr(seed, _RATES[term]) for term in TERMS[work])),
        work=work,
        sequences=sequences_of(card, profile),
        bytes_estimate=tensors if held_mb is None else int(held_mb * 1e6),
        reserve_bytes=activation_bytes(profile, device, pictures=card.takes_media)
        + keys_bytes(card, profile, folder, device),
        bytes_sure=held_mb is not None,
        load_s_estimate=LOAD_BASE_S + weights / LOAD_BYTES_S,
        min_replicas=card.min_replicas,
        fetched=folder is not None and missing(profile.runtime) is None,
    )


def sequences_of(card: Card, profile: Profile) -> int:
    """How many texts of this model are generated at once; 0 if it generates none."""
    return 0 if card.tasks.generate is None else profile.sequences


def load_of(card: Card, folder: Path, profile: Profile) -> Load:
    """What a runtime is told to load; `folder`: see `loaded_of`."""
    return Load(
        model=card.name,
        path=str(folder),
        family=card.family,
        heads=heads_of(card),
        dtype=profile.dtype,
        max_tokens=card.max_tokens,
        options=profile.options,
        threads=profile.threads or 0,
        sequences=sequences_of(card, profile),
    )


def heads_of(card: Card) -> dict[str, dict[str, Any]]:
    """The outputs that the card's tasks need of its runtime: name -> options, `head` among them."""
    tasks = card.tasks
    heads: dict[str, dict[str, Any]] = {}
    if (encode := tasks.encode) is not None:
        if (dense := encode.dense) is not None:
            heads["dense"] = {"head": "dense"} | _options(dense, "dim", "pooling", "projections")
        if (sparse := encode.sparse) is not None:
            heads["sparse"] = _options(sparse, "head", "activation", "projection", "skip")
        if (vectors := encode.multivector) is not None:
            heads["multivector"] = _options(vectors, "head", "dim", "projections")
    if tasks.score is not None and tasks.score.head == "cross-encoder":
        heads["score"] = {"head": "cross-encoder"}
    elif tasks.score is not None and tasks.score.head == "yes-no":
        heads["score"] = _options(tasks.score, "head", "yes", "no")
    if tasks.generate is not None:
        heads["generate"] = {"head": "generate"}
    if tasks.extract is not None:
        heads["extract"] = _options(tasks.extract, "head", "labels")
    return heads


def _options(of: msgspec.Struct, *keys: str) -> dict[str, Any]:
    return {key: getattr(of, key) for key in keys}


def files_of(card: Card, settings: WorkerSettings) -> Path:
    """The model's folder, fetched if it is not there; blocking. Raises `SourceError`."""
    return fetch(card, cache_dir=settings.cache_dir, offline=settings.offline)


def loaded_of(card: Card, folder: Path, profile: Profile, settings: CommonSettings) -> Path:
    """The folder that a runtime loads: the model's own, or that of a graph which is made of it.

    Blocking, where the graph is not there yet.

    Raises:
        ConfigError, ModelLoadFailed, SourceError: there is none of this model, or the card says another
            width of its vectors than its configuration; says why.
    """
    _check_width(card, folder)
    family = FAMILIES.get(card.family)
    if profile.runtime != "onnx" or (family is not None and family.graphs):
        return folder
    # Its writer needs numpy, and is needed once.
    from shoal.runtimes.onnx.export.build import Model, exported, weights_of
    from shoal.runtimes.onnx.export.shipped import shipped

    weights, cache_dir = weights_of(profile.options), settings.cache_dir
    if weights == "shipped":
        return shipped(card, folder, cache_dir, offline=settings.offline)
    return exported(Model(folder, card.family, heads_of(card), weights), cache_dir)


def _check_width(card: Card, folder: Path) -> None:
    """Of texts, as no layer behind the encoder changes it: a runtime gives what the weights give."""
    dense = None if card.tasks.encode is None else card.tasks.encode.dense
    if dense is None or dense.projections or card.takes_media:
        return
    path = folder / "config.json"
    width = read_json(path, Config, Config()).width
    if width not in (None, dense.dim):
        raise ModelLoadFailed(
            f"the card says `dim: {dense.dim}`, and {path} says {width}: correct the card "
            "(`shoal models show FOLDER` infers one)"
        )


def preparer_of(
    card: Card, folder: Path, profile: Profile, inputs: str, settings: WorkerSettings
) -> Preparer:
    """How this model's items are prepared; reads the tokenizer, blocking.

    Args:
        inputs: what the runtime takes by itself (`Capabilities.inputs`); the profile may say else.

    Raises:
        ModelLoadFailed: the tokenizer cannot be read, or the runtime takes none of the inputs that
            the card says.
    """
    taken = profile.options.get("inputs", inputs)
    if taken == "media":
        return MediaPreparer(card)
    if card.takes_media and taken == "tokens" and decodes(card):
        return DecodingPreparer(card, folder, settings)
    if card.takes_media:
        raise ModelLoadFailed(
            f"the card says `inputs: [{', '.join(card.inputs)}]`, and its runtime "
            f"'{profile.runtime}' takes {taken} only"
        )
    if taken == "text":
        return PlainPreparer(card)
    return TextPreparer(card, folder)
