"""How a sentence-transformers model pools and normalizes, from the files it is saved as.

Only pipelines that Shoal computes exactly pass: Transformer, Pooling (mean, largest, first or
last token), any number of Dense, maybe Normalize. Everything else is refused by name rather than
served wrongly.
Source: the configuration that sentence-transformers 2 to 6 writes.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from shoal.catalog.folder import Found
from shoal.catalog.tasks import INSTRUCTION, Pooling
from shoal.errors import CardError

_POOLINGS: dict[str, Pooling] = {"mean": "mean", "cls": "cls", "lasttoken": "last", "max": "max"}
#: `pooling_mode_*` flags of the years before `pooling_mode`.
_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
#: The transformer's own file is named after the class that wrote it, long ago.
_TRANSFORMER_FILES = [
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
]

#: The prompts of E5, GTE-Qwen2 and Qwen3-Embedding; they differ in the space at the end.
_INSTRUCTED = re.compile(r"Instruct: [^\n]+(\nQuery: ?)")


class Pipeline(msgspec.Struct, frozen=True):
    """What follows the encoder, and how text goes in.

    Attributes:
        path: the encoder's folder inside the model; empty for the model's own folder.
        dim: width that the pooling expects of the encoder.
        projections: folders of the Dense modules behind the pooling; `projected_dim`: the width
            that the last one gives.
    """

    path: str
    pooling: Pooling
    normalize: bool
    dim: int | None = None
    projections: list[str] = []
    projected_dim: int | None = None
    max_seq_length: int | None = None
    lowercase: bool = False
    prompts: dict[str, str] = {}
    default_prompt: str | None = None
    instruction_prompt: str | None = None


class Module(msgspec.Struct):
    """An entry of `modules.json`."""

    type: str
    path: str = ""


class _Dense(msgspec.Struct):
    out_features: int
    use_residual: bool = False


class Transformer(msgspec.Struct):
    max_seq_length: int | None = None
    do_lower_case: bool = False
    transformer_task: str = "feature-extraction"


class Model(msgspec.Struct):
    """`config_sentence_transformers.json`; `activation_fn`: of a cross-encoder's score."""

    model_type: str = "SentenceTransformer"
    prompts: dict[str, str | None] | None = None
    default_prompt_name: str | None = None
    activation_fn: str | None = None

    @property
    def texts(self) -> dict[str, str]:
        """The prompts that there are."""
        return {name: text for name, text in (self.prompts or {}).items() if text is not None}

    @property
    def instruction_prompt(self) -> str | None:
        """The form that its prompts have in common, where one of them is an instruction."""
        forms = {
            f"Instruct: {INSTRUCTION}{asked[1]}"
            for text in self.texts.values()
            if (asked := _INSTRUCTED.fullmatch(text))
        }
        return forms.pop() if len(forms) == 1 else None


def model_of(found: Found) -> Model:
    """What the model says of itself; a plain one says nothing. Raises `CardError`."""
    return found.read("config_sentence_transformers.json", Model) or Model()


def module_kinds(found: Found) -> list[str]:
    """The classes of its modules, in their order. Raises `CardError` for code of its own."""
    return [_kind(module, found) for module in found.read("modules.json", list[Module]) or []]


def read_pipeline(found: Found) -> Pipeline | None:
    """The pipeline of a sentence-transformers model; None for a plain Hugging Face model.

    Raises:
        CardError: the pipeline does something that Shoal does not compute.
    """
    modules = found.read("modules.json", list[Module])
    if modules is None:
        return None
    stages = _stages(modules, found)
    path = stages.transformer
    pooling, dim, include_prompt = _pooling(found, stages.pooling)
    transformer = transformer_of(found, path, "feature-extraction")
    model = model_of(found)
    if model.model_type != "SentenceTransformer":
        raise CardError(f"{found.where}: is a {model.model_type}, not served without a card")
    prompts = model.texts
    if not include_prompt and any(prompts.values()):
        raise CardError(
            f"{found.where}: its pooling leaves the prompt's tokens out (include_prompt: false), "
            "which is not supported"
        )
    return Pipeline(
        path=path,
        pooling=pooling,
        normalize=stages.normalize,
        dim=dim,
        projections=stages.projections,
        projected_dim=_projected(found, stages),
        max_seq_length=transformer.max_seq_length,
        lowercase=transformer.do_lower_case,
        prompts=prompts,
        default_prompt=model.default_prompt_name,
        instruction_prompt=model.instruction_prompt,
    )


class _Stages(msgspec.Struct):
    """Paths of the modules, and whether the vectors are normalized."""

    transformer: str
    pooling: str
    projections: list[str]
    normalize: bool


def _stages(modules: list[Module], found: Found) -> _Stages:
    kinds = [_kind(module, found) for module in modules]
    dense = [module.path for module, kind in zip(modules, kinds, strict=True) if kind == "Dense"]
    plain = ["Transformer", "Pooling", *(["Dense"] * len(dense))]
    if kinds not in (plain, [*plain, "Normalize"]):
        raise CardError(
            f"{found.where}: modules.json has {' + '.join(kinds) or 'no modules'}; supported is "
            "Transformer + Pooling, with or without Dense and Normalize after it"
        )
    return _Stages(modules[0].path, modules[1].path, dense, kinds[-1] == "Normalize")


def _projected(found: Found, stages: _Stages) -> int | None:
    """The width that the last Dense module gives; None where there is none."""
    if not stages.projections:
        return None
    if stages.transformer:
        first = stages.projections[0]
        raise CardError(f"{found.where}: {first} must lie in the folder of the encoder")
    return projected(found, stages.projections)


def projected(found: Found, paths: list[str]) -> int:
    """The width that the last of these Dense modules gives, at least one. Raises `CardError`."""
    dim = 0
    for path in paths:
        config = found.read(f"{path}/config.json", _Dense)
        if config is None:
            raise CardError(f"{found.where}: {path}/config.json is missing")
        if config.use_residual:
            raise CardError(f"{found.where}: {path} has use_residual, which is not computed")
        if f"{path}/model.safetensors" not in found.sizes:
            raise CardError(f"{found.where}: {path} has no model.safetensors; save it as one")
        dim = config.out_features
    return dim


def _kind(module: Module, found: Found) -> str:
    kind = module.type.rpartition(".")[2]
    if not module.type.startswith("sentence_transformers."):
        raise CardError(f"{found.where}: module '{module.type}' is code of its own, never run here")
    return kind


def _pooling(found: Found, path: str) -> tuple[Pooling, int | None, bool]:
    """Pooling, the width it expects, and whether it counts the prompt's tokens."""
    name = f"{path}/config.json"
    config = found.read(name, dict[str, Any])
    if config is None:
        raise CardError(f"{found.where}: {name} is missing, so the pooling is unknown")
    modes = config.get("pooling_mode") or [m for flag, m in _FLAGS.items() if config.get(flag)]
    modes = [modes] if isinstance(modes, str) else modes or ["mean"]
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise CardError(
            f"{found.where}: {name} pools by {' + '.join(map(str, modes))}; "
            f"supported is one of {', '.join(_POOLINGS)}"
        )
    dim = config.get("embedding_dimension", config.get("word_embedding_dimension"))
    include_prompt = config.get("include_prompt", True) is not False
    return _POOLINGS[modes[0]], dim if isinstance(dim, int) else None, include_prompt


def transformer_of(found: Found, path: str, task: str | None) -> Transformer:
    """How text goes into the encoder below `path`. Raises `CardError` if not for `task`."""
    prefix = f"{path}/" if path else ""
    for name in _TRANSFORMER_FILES:
        config = found.read(prefix + name, Transformer)
        if config is None:
            continue
        if task is not None and config.transformer_task != task:
            raise CardError(
                f"{found.where}: {name} asks for '{config.transformer_task}'; "
                f"expected here is {task}"
            )
        return config
    return Transformer()
