"""What a card must fulfil beyond its types. Pure: it looks at values, never at files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from shoal.catalog.card import Card, Profile, Source
from shoal.catalog.conversion import Convert, PackedFile
from shoal.catalog.families import FAMILIES
from shoal.catalog.tasks import (
    COMPARED,
    INSTRUCTION,
    OUTPUTS,
    EncodeTask,
    ExtractTask,
    GenerateTask,
    ScoreTask,
)
from shoal.spelling import nearest

#: Where in the card (keys from the top), and what is wrong there.
Problem = tuple[tuple[str, ...], str]

# Names become URL paths and subject tokens, in which a byte may take three characters.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*\Z")
_MAX_NAME = 96
_WHEEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*\Z")
_HUB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_PLATFORM = re.compile(r"[a-z][a-z0-9_]*\Z")
_NO_SHA256 = "must be 64 hex digits in lower case"


def problems(card: Card) -> Iterator[Problem]:
    """Everything wrong with `card`, in the order of its keys."""
    yield from _names(card)
    yield from _source(card.source)
    if card.family not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        hint = nearest(card.family, FAMILIES)
        yield ("family",), f"unknown family '{card.family}'{hint}; known families: {known}"
    if not card.inputs or len(set(card.inputs)) != len(card.inputs):
        yield ("inputs",), "must name each kind of input once, such as [text, image]"
    if not card.tasks.names():
        yield ("tasks",), "a card needs at least one task, such as `encode: {dense: {dim: 384}}`"
    if card.tasks.encode:
        yield from _encode(card.tasks.encode)
    if card.tasks.score:
        yield from _score(card.tasks.score, card.tasks.encode)
    if card.tasks.extract:
        yield from _extract(card.tasks.extract)
    if card.tasks.generate:
        yield from _generate(card.tasks.generate)
    if card.max_tokens < 1:
        yield ("max_tokens",), f"must be at least 1, not {card.max_tokens}"
    if card.min_replicas < 0:
        yield ("min_replicas",), f"must be at least 0, not {card.min_replicas}"
    if not is_inside(card.tokenizer):
        yield ("tokenizer",), "must be a path inside the model's folder, without '..'"
    for name, profile in card.profiles.items():
        for key, text in _profile(profile):
            yield ("profiles", name, *key), text


def is_name(text: str) -> bool:
    """Whether `text` can name a model."""
    return len(text) <= _MAX_NAME and _NAME.match(text) is not None


def is_hub_id(text: str) -> bool:
    """Whether `text` has the form ``org/name``."""
    return _HUB.match(text) is not None


def is_inside(path: str) -> bool:
    """Whether a relative path stays inside the folder that it starts from."""
    parts = path.split("/")
    return not path.startswith("/") and "\\" not in path and not {"", ".", ".."} & set(parts)


def _names(card: Card) -> Iterator[Problem]:
    rule = f"may hold letters, digits, '.', '_', '-' and '/', at most {_MAX_NAME} in all"
    for key, name in chain([("name", card.name)], (("aliases", a) for a in card.aliases)):
        if not is_name(name):
            yield (key,), f"'{name}' {rule}"
    names = [card.name, *card.aliases]
    for twice in sorted({name for name in names if names.count(name) > 1}):
        yield ("aliases",), f"'{twice}' stands twice"


def _source(source: Source) -> Iterator[Problem]:
    given = [kind for kind in ("wheel", "hub", "dir") if getattr(source, kind) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        yield ("source",), f"needs exactly one of wheel, hub, dir; this has {found}"
        return
    kind = given[0]
    belongs = {
        "sha256": ("wheel",),
        "platform": ("wheel",),
        "revision": ("hub",),
        "path": ("wheel", "hub"),
        "convert": ("wheel",),
    }
    for key, kinds in belongs.items():
        if getattr(source, key) is not None and kind not in kinds:
            yield ("source", key), f"has no meaning beside '{kind}'; it goes with {kinds[0]}"
    if source.path is not None and not is_inside(source.path):
        yield ("source", "path"), f"'{source.path}' must be relative, with '/' and without '..'"
    yield from _wheel(source) if source.wheel is not None else _hub(source)
    if source.convert is not None:
        yield from _convert(source.convert)


def _wheel(source: Source) -> Iterator[Problem]:
    yield from _pinned(source, ("source",))
    if source.path is None:
        yield ("source",), "a wheel needs `path`, the model's folder inside it"


def _pinned(source: Source | PackedFile, where: tuple[str, ...]) -> Iterator[Problem]:
    if not _WHEEL.match(source.wheel or ""):
        yield (*where, "wheel"), f"'{source.wheel}' must have the form package==version"
    if source.sha256 is None:
        yield where, "a wheel needs its `sha256`, as `pip hash FILE.whl` prints it"
    elif not _SHA256.match(source.sha256):
        yield (*where, "sha256"), _NO_SHA256
    if source.platform is not None and not _PLATFORM.match(source.platform):
        yield (*where, "platform"), f"'{source.platform}' is no tag such as manylinux_2_17_x86_64"


def _convert(convert: Convert) -> Iterator[Problem]:
    where = ("source", "convert")
    if not convert.weights:
        yield (*where, "weights"), "names no file"
    for name in [*convert.weights, *convert.files]:
        if not is_inside(name):
            yield where, f"'{name}' must be relative, with '/' and without '..'"
    if convert.result is not None and not _SHA256.match(convert.result):
        yield (*where, "result"), _NO_SHA256
    for name, file in convert.files.items():
        if file.wheel is not None or file.sha256 is not None:
            yield from _pinned(file, (*where, "files", name))


def _hub(source: Source) -> Iterator[Problem]:
    if source.hub is not None and not is_hub_id(source.hub):
        yield ("source", "hub"), f"'{source.hub}' must have the form org/name"
    if source.dir == "":
        yield ("source", "dir"), "is empty; name the model's folder"


def _encode(task: EncodeTask) -> Iterator[Problem]:
    where = ("tasks", "encode")
    if not task.outputs():
        yield (
            where,
            f"needs an output, such as `dense: {{dim: 384}}`; there are {', '.join(OUTPUTS)}",
        )
    for name in ("dense", "multivector"):
        output = getattr(task, name)
        if output is None:
            continue
        if output.dim < 1:
            yield (*where, name, "dim"), f"must be at least 1, not {output.dim}"
        for path in output.projections:
            if not is_inside(path):
                text = f"'{path}' must lie in the model's folder"
                yield (*where, name, "projections"), text
    if task.default_prompt is not None and task.default_prompt not in task.prompts:
        known = ", ".join(task.prompts) or "none"
        text = f"'{task.default_prompt}' is no key of prompts; they are: {known}"
        yield (*where, "default_prompt"), text
    if task.instruction_prompt is not None and INSTRUCTION not in task.instruction_prompt:
        text = f"'{task.instruction_prompt}' has no place for {INSTRUCTION}"
        yield (*where, "instruction_prompt"), text


def _score(task: ScoreTask, encode: EncodeTask | None) -> Iterator[Problem]:
    if task.head == "yes-no":
        for key in ("template", "yes", "no"):
            if getattr(task, key) is None:
                yield ("tasks", "score"), f"head 'yes-no' needs `{key}`"
    place = INSTRUCTION in (task.template or "").partition("{document}")[0]
    if place != (task.default_instruction is not None):
        text = (
            f"goes with a `template` that has {INSTRUCTION} before {{document}}, and that with it"
        )
        yield ("tasks", "score", "default_instruction"), text
    compared = COMPARED.get(task.head)
    if compared is not None and getattr(encode, compared, None) is None:
        yield ("tasks", "score"), f"head '{task.head}' compares what `encode: {compared}` gives"


def _extract(task: ExtractTask) -> Iterator[Problem]:
    if task.template is not None and "{label}" not in task.template:
        yield ("tasks", "extract", "template"), f"'{task.template}' has no place for {{label}}"
    for name in task.harmless:
        if task.labels and name not in task.labels:
            text = f"'{name}' is none of its labels{nearest(name, task.labels)}"
            yield ("tasks", "extract", "harmless"), text


#: Of what a text is generated by, the least and the most.
_SAMPLING = {
    "temperature": (0, 2),
    "top_p": (1e-6, 1),
    "top_k": (0, 2**31 - 1),
    "min_p": (0, 1),
    "repetition_penalty": (0.01, 10),
    "max_new_tokens": (1, 2**31 - 1),
}


def _generate(task: GenerateTask) -> Iterator[Problem]:
    where = ("tasks", "generate")
    for key, (least, most) in _SAMPLING.items():
        value = getattr(task, key)
        if value is not None and not least <= value <= most:
            yield (*where, key), f"must be from {least:g} to {most:g}, not {value}"
    if task.chat_template == "":
        yield (*where, "chat_template"), "is empty; leave it out, or write a template"
    if any(token < 0 for token in task.stop):
        yield (*where, "stop"), "must be token ids, which are not negative"
    if task.reasoning is not None and ("" in task.reasoning or len(set(task.reasoning)) < 2):
        yield (*where, "reasoning"), "must be two tags that differ, such as [<think>, </think>]"


def _profile(profile: Profile) -> Iterator[Problem]:
    for key in ("max_batch_seconds", "max_batch_tokens", "max_batch_items", "threads"):
        value = getattr(profile, key)
        if value is not None and not value > 0:
            yield (key,), f"must be above 0, not {value}"
    for key in profile.cost.__struct_fields__:
        if not getattr(profile.cost, key) >= 0:
            yield ("cost", key), "must not be negative"
