"""What a caller may ask of `encode`, checked against the model's card.

Decides which options are wrong and says what would be right; both routes end here. It must not
know bodies or the queue.
"""

from __future__ import annotations

from typing import Annotated, get_args

import msgspec
from msgspec import Meta

from shoal.catalog.card import Card
from shoal.catalog.tasks import EncodeTask
from shoal.errors import InvalidRequest
from shoal.gateway.instructions import Instruction, checked_instruction
from shoal.spelling import nearest
from shoal.values import EncodeParams, VectorDType

DTYPES: tuple[str, ...] = get_args(VectorDType)


class EncodeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The `params` of a native request."""

    outputs: Annotated[
        tuple[str, ...] | None,
        Meta(
            description="What to answer with: dense, sparse, multivector; unset: the model's first."
        ),
    ] = None
    dimensions: Annotated[
        int | None, Meta(description="Cut vectors to this width, then normalise them again.")
    ] = None
    dtype: Annotated[
        str,
        Meta(description="Element type of the vectors.", extra_json_schema={"enum": list(DTYPES)}),
    ] = "float32"
    normalize: Annotated[
        bool | None, Meta(description="Scale to length 1; unset: as the model's card says.")
    ] = None
    truncate: Annotated[
        bool, Meta(description="Cut items that are too long; false: such an item fails.")
    ] = True
    prompt: Annotated[
        str | None, Meta(description="Name of one of the card's prompts, put before each text.")
    ] = None
    instruction: Instruction = None


def checked_params(options: EncodeOptions, card: Card, prefix: str = "params.") -> EncodeParams:
    """`options` as they travel. `prefix`: what comes before an option's name in the body.

    Raises:
        InvalidRequest: an option that this model does not have, or out of its range.
    """
    task = card.tasks.encode
    assert task is not None, "the route looked"
    outputs = _checked_outputs(options.outputs, card, task, prefix)
    _check_dimensions(options.dimensions, card, task, prefix)
    check_prompt(options.prompt, card, f"{prefix}prompt")
    where = f"{prefix}instruction"
    instruction = checked_instruction(options.instruction, card, "encode", where)
    if instruction is not None and options.prompt is not None:
        raise InvalidRequest(
            f"{where} stands in place of a prompt: leave out {prefix}prompt", param=where
        )
    if options.dtype not in DTYPES:
        raise InvalidRequest(
            f"{prefix}dtype '{options.dtype}' is not known: use one of {', '.join(DTYPES)}",
            param=f"{prefix}dtype",
        )
    return EncodeParams(
        outputs,
        options.dimensions,
        options.dtype,  # type: ignore[arg-type]  # checked above
        options.normalize,
        options.truncate,
        options.prompt,
        instruction,
    )


def _checked_outputs(
    asked: tuple[str, ...] | None, card: Card, task: EncodeTask, prefix: str
) -> tuple[str, ...]:
    known = task.outputs()
    if asked is None:
        return (known[0],)
    if not asked:
        raise InvalidRequest(f"{prefix}outputs is empty", param=f"{prefix}outputs")
    for output in asked:
        if output not in known:
            names = ", ".join(f"'{name}'" for name in known)
            raise InvalidRequest(
                f"model '{card.name}' has no output '{output}': it has {names}",
                param=f"{prefix}outputs",
            )
    return tuple(dict.fromkeys(asked))


def _check_dimensions(dimensions: int | None, card: Card, task: EncodeTask, prefix: str) -> None:
    if dimensions is None:
        return
    if task.dense is None:
        raise InvalidRequest(
            f"{prefix}dimensions is for dense vectors; '{card.name}' has none",
            param=f"{prefix}dimensions",
        )
    if not 1 <= dimensions <= task.dense.dim:
        raise InvalidRequest(
            f"{prefix}dimensions is {dimensions}: '{card.name}' takes 1 to {task.dense.dim}",
            param=f"{prefix}dimensions",
        )


def check_prompt(prompt: str | None, card: Card, where: str) -> None:
    """Raises `InvalidRequest` for one that the card has not."""
    prompts = {} if card.tasks.encode is None else card.tasks.encode.prompts
    if prompt is None or prompt in prompts:
        return
    known = ", ".join(f"'{name}'" for name in prompts)
    offer = f"it has {known}{nearest(prompt, prompts)}" if known else "it has none"
    raise InvalidRequest(f"model '{card.name}' has no prompt '{prompt[:80]}': {offer}", param=where)
