"""Texts that are generated, as the tests see them: a column of the table in docs/models.md."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.socket import Generated
from tests.runtimes.torch import seeing
from tests.runtimes.torch.families.cells import IDS
from tests.runtimes.torch.families.near_llama import NEAR_LLAMA
from tests.runtimes.torch.generating import texts

#: By family, the changes to its config of which tokens see only what lies before them; of T5 and of those that
#: read images, their kinds.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    row.family: [
        variant
        for variant in row.variants
        if variant.get("is_causal", True) and not variant.get("use_bidirectional_attention")
    ]
    for row in NEAR_LLAMA
} | {
    "t5": [{"kind": kind} for kind in texts.T5_KINDS],
    "idefics3": [{"kind": "idefics3"}, {"kind": "smolvlm", "tie_word_embeddings": True}],
}
MEASURE = IDS
_LENGTHS = [5, 1, 90, 17, 300, 64, 33]
_NEW = 30


def worst_error(family: str, folder: Path) -> float:
    """0, or infinity where any text under any of the variants is another one."""
    alike = [_alike(family, folder / f"{n}", v) for n, v in enumerate(VARIANTS[family])]
    return 0.0 if all(alike) else float("inf")


def _alike(family: str, folder: Path, variant: dict[str, Any]) -> bool:
    """Seven prompts in three places, the long ones in pieces of 40 tokens, with images where the model reads
    some; greedy."""
    runtime = TorchRuntime("cpu", 1)
    if family == "idefics3":
        model = seeing.make(folder, **variant)
        seen = [seeing.prompt(images, seed=images) for images in range(1, 8)]
        asked = [seeing.asked(batch, prompt, _NEW) for batch, prompt in enumerate(seen)]
        theirs = [seeing.greedy(model, prompt, _NEW) for prompt in seen]
    else:
        make = texts.make_t5 if family == "t5" else partial(texts.make, family)
        model = make(folder, **variant)
        prompts = texts.prompts(_LENGTHS)
        asked = [texts.asked(batch, prompt, _NEW) for batch, prompt in enumerate(prompts)]
        theirs = [texts.greedy(model, prompt, _NEW) for prompt in prompts]
    texts.load(runtime, folder, family, options={"pass_tokens": 40})
    ours = texts.generated(runtime, *asked)
    return all(
        ours[batch].tokens == tokens
        and ours[batch].over == Generated(batch, "length", _NEW, ours[batch].ended.seconds)
        for batch, tokens in enumerate(theirs)
    )
