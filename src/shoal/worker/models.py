"""Cards as the worker uses them: what the core must know, what a runtime is told, how items are prepared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.catalog.card import Card, Profile
from shoal.catalog.fetch import fetch
from shoal.core.batcher import Budget
from shoal.core.models import ModelSpec
from shoal.errors import ModelLoadFailed
from shoal.settings import WorkerSettings
from shoal.wire.socket import Load
from shoal.worker.media import MediaPreparer
from shoal.worker.text import PlainPreparer, Preparer, TextPreparer


def spec_of(card: Card, profile: Profile) -> ModelSpec:
    """What the core must know to schedule this card with this profile."""
    seed = profile.cost
    return ModelSpec(
        name=card.name,
        kind=profile.runtime,
        max_tokens=card.max_tokens,
        budget=Budget(profile.max_batch_seconds, profile.max_batch_tokens, profile.max_batch_items),
        cost_seed=(seed.base_s, seed.token_s, seed.square_s, seed.item_s),
    )


def load_of(card: Card, folder: Path, profile: Profile) -> Load:
    """What a runtime is told to load."""
    encode = card.tasks.encode
    heads: dict[str, dict[str, Any]] = {}
    if encode is not None:
        heads = {encode.head: {"pooling": encode.pooling, "dim": encode.dim}}
    return Load(
        model=card.name,
        path=str(folder),
        family=card.family,
        heads=heads,
        dtype=profile.dtype,
        max_tokens=card.max_tokens,
        options=profile.options,
        threads=profile.threads or 0,
    )


def files_of(card: Card, settings: WorkerSettings) -> Path:
    """The model's folder, fetched if it is not there; blocking. Raises `SourceError`."""
    return fetch(card, cache_dir=settings.cache_dir, offline=settings.offline)


def preparer_of(card: Card, folder: Path, profile: Profile, inputs: str) -> Preparer:
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
    if card.takes_media:
        raise ModelLoadFailed(
            f"the card says `inputs: [{', '.join(card.inputs)}]`, and its runtime "
            f"'{profile.runtime}' takes {taken} only"
        )
    if taken == "text":
        return PlainPreparer(card)
    return TextPreparer(card, folder)
