"""From a sentence-transformers folder alone to its vectors: what a card infers, what a worker
makes of texts, what the family computes; against sentence-transformers itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from shoal.catalog.infer import infer
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.values import EncodeParams
from shoal.wire.socket import Load
from shoal.worker.models import heads_of
from shoal.worker.prepared import Prepared
from shoal.worker.text.preparer import TextPreparer
from tests.runtimes.torch import made
from tests.runtimes.torch.families.rows import ROWS

WORDS = [f"w{number}" for number in range(90)]
#: Also such that are empty, cut, unknown, and that hold the padding token itself.
TEXTS = ["w1 w2 w3", "", "W4 w5", "w6 <pad> w7", "nothing known", " ".join(WORDS), "w8"]
_AROUND = {"t5": (None, "</s>"), "roberta": ("<s>", "</s>"), "mpnet": ("<s>", "</s>")}


def _tokenizer(family: str, max_tokens: int, lowercase: bool) -> Any:
    first, last = _AROUND.get(family, ("[CLS]", "[SEP]"))
    special = [first or "<x>", "<pad>", last, "<unk>"]
    tokenizer = Tokenizer(
        models.WordLevel({t: n for n, t in enumerate([*special, *WORDS])}, "<unk>")
    )
    if lowercase:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    around = [(token, special.index(token)) for token in (first, last) if token]
    form = f"{first} $A {last}" if first else f"$A {last}"
    tokenizer.post_processor = processors.TemplateProcessing(form, special_tokens=around)
    tokenizer.add_special_tokens(special)
    wrap: Any = PreTrainedTokenizerFast
    return wrap(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        model_max_length=max_tokens,
    )


def _save(family: str, folder: Path, lowercase: bool) -> None:
    row = ROWS[family]
    row.make("encoder", folder / "plain", pad_token_id=1)
    _tokenizer(family, row.max_tokens, lowercase).save_pretrained(folder / "plain")
    transformer = Transformer(str(folder / "plain"))
    modules: list[Any] = [transformer, Pooling(32, pooling_mode="mean")]
    if family == "t5":
        modules.append(Dense(32, 24, bias=False, activation_function=None))
    SentenceTransformer(modules=[*modules, Normalize()]).save_pretrained(str(folder / "whole"))


@pytest.mark.parametrize(
    "family", ["albert", "bert", "deberta", "distilbert", "electra", "mpnet", "roberta", "t5"]
)
def test_equals_sentence_transformers(runtime: TorchRuntime, tmp_path: Path, family: str) -> None:
    _save(family, tmp_path, lowercase=family != "t5")
    folder = tmp_path / "whole"
    card = infer(str(folder))
    assert card.family == family
    assert card.tasks.encode is not None
    assert card.tasks.encode.dense is not None
    assert card.tasks.encode.dense.dim == (24 if family == "t5" else 32)
    runtime.load(Load("m", str(folder), card.family, heads_of(card), "float32", card.max_tokens))
    items = [_ids(item) for item in TextPreparer(card, folder).prepare([*TEXTS], EncodeParams())]
    ours = made.vectors(made.run(runtime, items))
    reference = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    assert made.cosines(ours, np.asarray(reference)).min() > 0.9999


def _ids(item: Prepared | Exception) -> list[int]:
    assert isinstance(item, Prepared)
    assert item.ids is not None
    return [int(token) for token in item.ids]
