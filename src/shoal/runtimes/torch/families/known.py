"""The families that the torch runtime has, by the name that a card says."""

from __future__ import annotations

from typing import Any

from shoal.runtimes.torch.families.albert import ALBERT
from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.bert import BERT
from shoal.runtimes.torch.families.clip import CLIP
from shoal.runtimes.torch.families.colmodernvbert import COLMODERNVBERT
from shoal.runtimes.torch.families.colpali import COLPALI
from shoal.runtimes.torch.families.deberta import DEBERTA
from shoal.runtimes.torch.families.distilbert import DISTILBERT
from shoal.runtimes.torch.families.efficientnet import EFFICIENTNET
from shoal.runtimes.torch.families.electra import ELECTRA
from shoal.runtimes.torch.families.gemma3 import GEMMA3
from shoal.runtimes.torch.families.gte import GTE
from shoal.runtimes.torch.families.idefics3 import IDEFICS3
from shoal.runtimes.torch.families.llama import LLAMA
from shoal.runtimes.torch.families.mistral import MISTRAL
from shoal.runtimes.torch.families.modernbert import MODERNBERT
from shoal.runtimes.torch.families.mpnet import MPNET
from shoal.runtimes.torch.families.nomic import NOMIC
from shoal.runtimes.torch.families.qwen2 import QWEN2
from shoal.runtimes.torch.families.qwen3 import QWEN3
from shoal.runtimes.torch.families.roberta import ROBERTA
from shoal.runtimes.torch.families.siglip import SIGLIP
from shoal.runtimes.torch.families.smollm3 import SMOLLM3
from shoal.runtimes.torch.families.t5 import T5_ENCODER
from shoal.runtimes.torch.families.vit import VIT
from shoal.runtimes.torch.families.whisper import WHISPER

FAMILIES: dict[str, Family[Any]] = {
    "albert": ALBERT,
    "bert": BERT,
    "clip": CLIP,
    "colmodernvbert": COLMODERNVBERT,
    "colpali": COLPALI,
    "deberta": DEBERTA,
    "distilbert": DISTILBERT,
    "efficientnet": EFFICIENTNET,
    "electra": ELECTRA,
    "gemma3": GEMMA3,
    "gte": GTE,
    "idefics3": IDEFICS3,
    "llama": LLAMA,
    "mistral": MISTRAL,
    "modernbert": MODERNBERT,
    "mpnet": MPNET,
    "nomic": NOMIC,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "roberta": ROBERTA,
    "siglip": SIGLIP,
    "smollm3": SMOLLM3,
    "t5": T5_ENCODER,
    "vit": VIT,
    "whisper": WHISPER,
}
