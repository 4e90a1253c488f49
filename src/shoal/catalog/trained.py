"""What a model does besides dense vectors, where its own files say so: terms, scores, labels, spans,
pages, texts.

Whatever they leave open is refused with the card to write: a wrong guess would look like an answer.
"""

from __future__ import annotations

import msgspec

from shoal.catalog.card import Input
from shoal.catalog.encoder import Config, Reader, read_config
from shoal.catalog.families import family_of
from shoal.catalog.folder import Found
from shoal.catalog.generators import is_generator
from shoal.catalog.gliner import FILE
from shoal.catalog.late import read_late
from shoal.catalog.pages import Processor, query_prefix
from shoal.catalog.preprocessing import TOGETHER
from shoal.catalog.sentence_transformers import Pipeline, model_of, module_kinds, transformer_of
from shoal.catalog.tasks import (
    EncodeTask,
    ExtractTask,
    GenerateTask,
    Multivector,
    ScoreTask,
    Sparse,
    Tasks,
)
from shoal.errors import CardError

_ACTIVATIONS = {"Sigmoid": "sigmoid", "Identity": "identity"}
#: What moderation models call a text that has nothing wrong with it.
_HARMLESS = frozenset(
    [
        "benign",
        "clean",
        "ham",
        "harmless",
        "neutral",
        "none",
        "normal",
        "ok",
        "other",
        "safe",
        "sfw",
        "non-hate",
        "non-toxic",
        "nontoxic",
        "not-hate",
        "not-toxic",
        "nothate",
    ]
)
_SEQUENCE, _TOKENS, _MASKED = "ForSequenceClassification", "ForTokenClassification", "ForMaskedLM"
#: Where nobody says how long a text may be: one begins only once all that it may become has room, so that
#: one of any length would have all of it for itself.
_NEW_TOKENS = 1024
#: Of pages, by a vector for each of their parts.
_PAGES = "ForRetrieval"


class Trained(msgspec.Struct, frozen=True):
    """`pipeline`: how text goes in; its pooling means nothing here."""

    tasks: Tasks
    pipeline: Pipeline
    inputs: tuple[Input, ...] = ("text",)


class _Vlm(msgspec.Struct):
    text_config: Reader = Reader()


class _Pages(msgspec.Struct):
    model_type: str = ""
    embedding_dim: int = 128
    vlm_config: _Vlm = msgspec.field(default_factory=_Vlm)


class _SpladePooling(msgspec.Struct):
    pooling_strategy: str = "max"
    activation_function: str = "relu"


def read_trained(found: Found) -> Trained | None:
    """Tasks other than dense vectors; None: its files tell of none.

    Raises:
        CardError: it computes something that Shoal does not, or does not say what.
    """
    config = read_config(found) or Config()
    if FILE in found.sizes:
        return _trained(found, Tasks(extract=ExtractTask("spans")), None, config)
    late = read_late(found, config)
    if late is not None:
        return _trained(found, late.tasks, None, config, late.max_tokens)
    model = model_of(found)
    match model.model_type:
        case "CrossEncoder":
            _only(found, ["Transformer"])
            return _trained(found, _score(found, config, model.activation_fn), _SEQUENCE, config)
        case "SparseEncoder":
            return _trained(found, _sparse(found), _MASKED, config)
    if "modules.json" in found.sizes:
        return None
    if config.is_a(_PAGES):
        return _pages(found)
    if is_generator(found, config):
        tasks = Tasks(generate=GenerateTask(max_new_tokens=_NEW_TOKENS))
        family = family_of(config.model_type or "")
        media = () if family is None else family.media
        trained = _trained(found, tasks, None, config)
        return msgspec.structs.replace(trained, inputs=("text", *media))
    if config.is_a(_TOKENS):
        _names(found, config)
        tasks = Tasks(extract=ExtractTask("token-labels"))
    elif config.is_a(_SEQUENCE):
        tasks = _labels(found, config)
    elif config.is_a(_MASKED):
        raise CardError(
            f"{found.where}: is a {(config.architectures or [''])[0]} and does not say what its "
            "vectors are; write a card with `encode: {dense: {dim: …, pooling: mean}}` if it was "
            "trained to embed so, with `encode: {sparse: {head: splade}}` if it gives terms"
        )
    else:
        return None
    return _trained(found, tasks, None, config)


def _trained(
    found: Found, tasks: Tasks, needs: str | None, config: Config, most: int | None = None
) -> Trained:
    """`most`: tokens of a text, where its files say so elsewhere than others do."""
    if needs is not None and not config.is_a(needs):
        what = ", ".join(config.architectures or []) or "nothing"
        raise CardError(f"{found.where}: config.json names {what}, not a class that is {needs}")
    transformer = transformer_of(found, "", None)
    return Trained(
        tasks,
        Pipeline(
            path="",
            pooling="mean",
            normalize=False,
            max_seq_length=transformer.max_seq_length if most is None else most,
            lowercase=transformer.do_lower_case,
        ),
    )


def _pages(found: Found) -> Trained:
    config = found.read("config.json", _Pages) or _Pages()
    said = found.read(TOGETHER, Processor) or Processor()
    vectors = Multivector(config.embedding_dim, projections=["embedding_proj_layer"])
    prompts = {"query": query_prefix(said, config.model_type)}
    task = EncodeTask(multivector=vectors, prompts=prompts, default_prompt="query")
    most = config.vlm_config.text_config.max_position_embeddings
    return Trained(
        Tasks(encode=task, score=ScoreTask("maxsim")),
        Pipeline(path="", pooling="mean", normalize=False, max_seq_length=most),
        ("text", "image"),
    )


def _only(found: Found, *supported: list[str]) -> None:
    """Raises `CardError` for other modules; a model from before there were any has none."""
    kinds = module_kinds(found)
    if kinds and kinds not in supported:
        raise CardError(
            f"{found.where}: modules.json has {' + '.join(kinds)}; supported is "
            f"{' or '.join(' + '.join(one) for one in supported)}"
        )


def _score(found: Found, config: Config, activation: str | None) -> Tasks:
    if config.labels != 1:
        raise CardError(
            f"{found.where}: is a cross-encoder of {config.labels} labels; a score is one number. "
            "To serve its labels, write a card with `extract: {head: sequence-labels}`"
        )
    said = activation or config.activation or "Sigmoid"
    name = said.rpartition(".")[2]
    if name not in _ACTIVATIONS:
        raise CardError(
            f"{found.where}: its activation is {said}; computed are {', '.join(_ACTIVATIONS)}"
        )
    return Tasks(score=msgspec.convert({"activation": _ACTIVATIONS[name]}, ScoreTask))


def _sparse(found: Found) -> Tasks:
    _only(found, ["Transformer", "SpladePooling"], ["MLMTransformer", "SpladePooling"])
    name = "1_SpladePooling/config.json"
    pooling = found.read(name, _SpladePooling)
    if pooling is None:
        raise CardError(f"{found.where}: {name} is missing, so the pooling is unknown")
    if pooling.pooling_strategy != "max":
        raise CardError(
            f"{found.where}: {name} pools by {pooling.pooling_strategy}; supported is max"
        )
    try:
        sparse = msgspec.convert({"activation": pooling.activation_function}, Sparse)
    except msgspec.ValidationError:
        raise CardError(
            f"{found.where}: {name} has activation_function {pooling.activation_function}; "
            "supported are relu and log1p_relu"
        ) from None
    model = model_of(found)
    return Tasks(
        encode=EncodeTask(
            sparse=sparse, prompts=model.texts, default_prompt=model.default_prompt_name
        )
    )


def _labels(found: Found, config: Config) -> Tasks:
    if config.activation is not None:
        return _score(found, config, None)
    if config.labels == 1:
        raise CardError(
            f"{found.where}: gives one number and does not say of what; write a card with "
            "`score: {head: cross-encoder}` if it is a reranker, or with "
            "`extract: {head: sequence-labels}` if it scores single texts"
        )
    names = _names(found, config)
    if "entailment" in [name.lower() for name in names]:
        return Tasks(extract=ExtractTask("nli"))
    return Tasks(extract=ExtractTask("sequence-labels", harmless=list(filter(_harmless, names))))


def _harmless(name: str) -> bool:
    return name.lower().replace("_", "-").replace(" ", "-") in _HARMLESS


def _names(found: Found, config: Config) -> list[str]:
    """The names of its labels. Raises `CardError` where nobody gave them any."""
    names = list((config.id2label or {}).values())
    if not names or all(name.startswith("LABEL_") for name in names):
        raise CardError(
            f"{found.where}: config.json names no labels; put them under its id2label, or write a "
            "card with `extract: {head: ..., labels: [...]}`"
        )
    return names
