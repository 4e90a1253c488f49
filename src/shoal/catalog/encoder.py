"""What an encoder's own files say: its family, how long a text may be, how large it is.

An encoder is a folder with `config.json`, safetensors and a tokenizer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.catalog.families import Family, family_of, known_model_types
from shoal.catalog.folder import Found
from shoal.catalog.gliner import FILE, SAVE_ANEW, GlinerConfig
from shoal.catalog.sentence_transformers import Pipeline
from shoal.errors import CardError


class Reader(msgspec.Struct, frozen=True):
    """`text_config`: of the part that reads tokens, where a model has others beside it."""

    max_position_embeddings: int | None = None


class Config(msgspec.Struct, frozen=True):
    """The keys of `config.json` that a card follows from."""

    model_type: str | None = None
    architectures: list[str] | None = None
    hidden_size: int | None = None
    dim: int | None = None
    d_model: int | None = None
    n_embd: int | None = None
    max_position_embeddings: int | None = None
    n_positions: int | None = None
    pad_token_id: int | None = None
    auto_map: dict[str, Any] | None = None
    id2label: dict[str, str] | None = None
    num_labels: int | None = None
    sentence_transformers: dict[str, Any] | None = None
    sbert_ce_default_activation_function: str | None = None
    text_config: Reader | None = None

    @property
    def labels(self) -> int:
        """How many its classifier gives; two where nothing is said, as transformers has it."""
        return self.num_labels or len(self.id2label or {}) or 2

    @property
    def activation(self) -> str | None:
        """Of a cross-encoder's score, where sentence-transformers 3 to 5 saved one."""
        said = (self.sentence_transformers or {}).get("activation_fn")
        return str(said) if said else self.sbert_ce_default_activation_function

    def is_a(self, suffix: str) -> bool:
        """Whether the class that it names ends like this."""
        return any(name.endswith(suffix) for name in self.architectures or [])

    @property
    def width(self) -> int | None:
        """Of a token's vector, by whatever key its family has."""
        return _said(self.hidden_size, self.dim, self.d_model, self.n_embd)

    @property
    def positions(self) -> int | None:
        """Likewise, how many tokens have one."""
        reader = self.text_config or Reader()
        return _said(self.max_position_embeddings, self.n_positions, reader.max_position_embeddings)

    @property
    def code(self) -> str:
        """The class of its own code that it asks for; empty: none."""
        return str((self.auto_map or {}).get("AutoModel", "")).rpartition(".")[2]


def _said(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


class _Token(msgspec.Struct):
    content: str = ""


class _TokenizerConfig(msgspec.Struct):
    model_max_length: float | None = None
    add_eos_token: bool | None = None
    eos_token: str | _Token | None = None


def read_config(encoder: Found) -> Config | None:
    """Its configuration, which a GLiNER has inside its own; None: there is none.

    Raises `CardError` where that is of an architecture that is not computed.
    """
    around = encoder.read(FILE, GlinerConfig)
    if around is None:
        return encoder.read("config.json", Config)
    if not around.has_encoder:
        raise CardError(f"{encoder.where}: {FILE} has no encoder_config; {SAVE_ANEW}")
    try:
        return msgspec.json.decode(around.encoder_config, type=Config)
    except msgspec.DecodeError as error:
        raise CardError(f"{encoder.where}: {FILE}: encoder_config: {error}") from None


def family_in(config: Config, found: Found, *, trained: bool) -> Family:
    """The family of an encoder.

    Raises:
        CardError: unknown, needs code of its own, or (unless `trained`, as its
            other files show) made for another task.
    """
    family = family_of(config.model_type or "")
    if config.auto_map and (family is None or config.code not in family.code):
        raise CardError(f"{found.where}: needs code from its own repository, which is never run")
    architectures = config.architectures or []
    if family is None:
        what = config.model_type or ", ".join(architectures) or "nothing"
        known = ", ".join(known_model_types())
        raise CardError(f"{found.where}: model_type '{what}' has no family here; known are {known}")
    heads = [name for name in architectures if name not in family.encoders]
    if heads and not trained:
        if heads[0] in family.generators:
            raise CardError(
                f"{found.where}: is a {heads[0]} without a chat template; write a card with "
                "`generate: {}` if it is to carry on texts"
            )
        raise CardError(
            f"{found.where}: is a {heads[0]}, trained for another task than encode; "
            f"encoders are {', '.join(family.encoders)}"
        )
    return family


def max_tokens(encoder: Found, config: Config, family: Family, pipeline: Pipeline) -> int:
    """The longest text in tokens. Raises `CardError` if no file says so."""
    limits = []
    positions = _said(config.positions, family.positions)
    if positions is not None:
        limits.append(positions - _unused_positions(config, family))
    if pipeline.max_seq_length is not None:
        limits.append(pipeline.max_seq_length)
    else:
        tokenizer = encoder.read("tokenizer_config.json", _TokenizerConfig)
        if tokenizer is not None and tokenizer.model_max_length is not None:
            limits.append(int(tokenizer.model_max_length))
    if not limits:
        raise CardError(
            f"{encoder.where}: neither config.json (max_position_embeddings) nor "
            "tokenizer_config.json (model_max_length) says how many tokens fit"
        )
    return min(limits)


def _unused_positions(config: Config, family: Family) -> int:
    if family.position_offset is not None:
        return family.position_offset
    # The reference library's default for each of these families.
    padding = 1 if config.pad_token_id is None else config.pad_token_id
    return padding + 1


def check_lowercase(encoder: Found, pipeline: Pipeline) -> None:
    """Raises `CardError` if `do_lower_case` is left to the caller, not done by tokenizer.json."""
    if not pipeline.lowercase:
        return
    tokenizer = encoder.read("tokenizer.json", dict[str, Any]) or {}
    if not _lowers(tokenizer.get("normalizer")):
        raise CardError(
            f"{encoder.where}: do_lower_case is set but tokenizer.json does not lower text; "
            "add a Lowercase normalizer to it"
        )


def _lowers(normalizer: Any) -> bool:
    if not isinstance(normalizer, dict):
        return False
    parts = normalizer.get("normalizers")
    if isinstance(parts, list):
        return any(_lowers(part) for part in parts)
    return normalizer.get("type") == "Lowercase" or normalizer.get("lowercase") is True


def check_end(encoder: Found) -> None:
    """Raises `CardError` if `add_eos_token` is left to the caller, not done by tokenizer.json.

    Language models taught to encode are read at that token.
    """
    said = encoder.read("tokenizer_config.json", _TokenizerConfig)
    if said is None or not said.add_eos_token or said.eos_token is None:
        return
    end = said.eos_token if isinstance(said.eos_token, str) else said.eos_token.content
    tokenizer = encoder.read("tokenizer.json", dict[str, Any]) or {}
    if not _appends(tokenizer.get("post_processor"), end):
        raise CardError(
            f"{encoder.where}: add_eos_token is set but tokenizer.json does not put {end} after a "
            "text; add a TemplateProcessing post-processor to it"
        )


def _appends(processor: Any, token: str) -> bool:
    match processor:
        case {"processors": list(parts)}:
            return any(_appends(part, token) for part in parts)
        case {"single": [*_, {"SpecialToken": {"id": last}}]} | {"sep": [last, _]}:
            return bool(last == token)
    return False


def weights_mb(encoder: Found) -> float:
    """Size of its weights, in 10^6 bytes."""
    sizes = [s for n, s in encoder.sizes.items() if n.endswith(".safetensors") and "/" not in n]
    return round(sum(sizes) / 1e6, 1)
