"""The families that the torch runtime has, by the name that a card says."""

from __future__ import annotations

from typing import Any

from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.bert import BERT
from shoal.runtimes.torch.families.clip import CLIP
from shoal.runtimes.torch.families.distilbert import DISTILBERT
from shoal.runtimes.torch.families.modernbert import MODERNBERT
from shoal.runtimes.torch.families.roberta import ROBERTA
from shoal.runtimes.torch.families.siglip import SIGLIP
from shoal.runtimes.torch.families.vit import VIT

FAMILIES: dict[str, Family[Any]] = {
    "bert": BERT,
    "clip": CLIP,
    "distilbert": DISTILBERT,
    "modernbert": MODERNBERT,
    "roberta": ROBERTA,
    "siglip": SIGLIP,
    "vit": VIT,
}
