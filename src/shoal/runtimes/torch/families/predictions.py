"""The masked-LM head as BERT has it, which its descendants call differently."""

from __future__ import annotations

from shoal.runtimes.torch.families.embeddings import WORDS
from shoal.runtimes.torch.heads.layout import Linear, MaskedLM, Norm
from shoal.runtimes.torch.linear import Activation


def masked_lm(
    at: str, norm: str, activation: Activation, eps: float, *, tied: bool, transform: str = ""
) -> MaskedLM:
    """A product, its activation and norm, then the decoder; all below `at`.

    tied: the decoder's weight is that of the words. transform: where below `at` product and norm
    lie.
    """
    steps = (
        Linear(f"{at}{transform}.dense", activation),
        Norm(f"{at}{transform}.{norm}", eps),
    )
    own = (f"{at}.decoder.weight", f"{at}.decoder.bias")
    return MaskedLM(steps, WORDS, f"{at}.bias", own) if tied else MaskedLM(steps, *own)
