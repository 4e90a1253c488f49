"""Tokenizers of the kind that a card's model has: its own class of transformers, with letters for words."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from shoal.catalog.card import Card
from tests.catalog.model_types import model_type_of

#: What the tokenizer of a GLiNER has besides, in this order.
OF_GLINER = ["[FLERT]", "<<ENT>>", "<<SEP>>"]
_SYMBOLS = [*string.ascii_letters, *string.digits, *string.punctuation]
_BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
_ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]

#: Cards of BERT's and GTE's code with the tokenizer of XLM-R, as their publishers say.
_LIKE_XLM_ROBERTA = {
    "intfloat/multilingual-e5-small",
    "multilingual-e5-small",
    "paraphrase-multilingual-MiniLM-L12-v2",
    "gte-multilingual-base",
    "gte-multilingual-reranker-base",
}


def tokenizer_of(card: Card) -> Any:
    """Saves ``tokenizer.json`` and knows how two texts become one sequence."""
    kind = "xlm-roberta" if card.name in _LIKE_XLM_ROBERTA else model_type_of(card)
    if kind == "siglip" and card.name.startswith("siglip2"):
        kind = "siglip2"
    tokenizer = _KINDS[kind](card)
    if card.tasks.extract is not None and card.tasks.extract.head == "spans":
        tokenizer.add_tokens(OF_GLINER, special_tokens=True)
    return tokenizer


def _numbered(tokens: list[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(tokens)}


def _pieces(special: list[str]) -> dict[str, int]:
    """Those of WordPiece."""
    return _numbered([*special, *_SYMBOLS, *(f"##{symbol}" for symbol in _SYMBOLS)])


def _scored(special: list[str]) -> list[tuple[str, float]]:
    """Those of SentencePiece's unigrams."""
    return [*((token, 0.0) for token in special), ("\u2581", -2.0), *((s, -3.0) for s in _SYMBOLS)]


def _bert(_: Card) -> Any:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]"]
    return _of("BertTokenizer", vocab=_pieces(special))


def _mpnet(_: Card) -> Any:
    return _of("MPNetTokenizer", vocab=_pieces(["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]))


def _roberta(_: Card) -> Any:
    return _of("RobertaTokenizer", vocab=_numbered([*_ROBERTA, *_BYTES]), merges=[])


def _xlm_roberta(_: Card) -> Any:
    return _of("XLMRobertaTokenizer", vocab=_scored(_ROBERTA))


def _deberta(_: Card) -> Any:
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    return _of("DebertaV2Tokenizer", vocab=_scored(special), unk_id=3)


def _t5(_: Card) -> Any:
    return _of("T5Tokenizer", vocab=_scored(["<pad>", "</s>", "<unk>"]), extra_ids=0)


def _gemma(_: Card) -> Any:
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    pieces = [*special, "\u2581", *_SYMBOLS]
    return _of("Siglip2Tokenizer", vocab=_numbered(pieces), merges=[])


def pali() -> Any:
    """With a line feed, which ends what ColPali reads."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "\n"]
    return _of("GemmaTokenizer", vocab=_numbered([*special, "\u2581", *_SYMBOLS]), merges=[])


def vbert() -> Any:
    """With the tokens that stand around the squares of an image."""
    squares = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    special = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "<global-img>", *squares]
    return _bytewise(special, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]")


def vlm() -> Any:
    """The same, and what stands around the turns of a conversation; nothing around a text."""
    squares = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    images = ["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>"]
    return _bytewise(["<|im_start|>", "<|im_end|>", *images, *squares], "$A")


def _clip(_: Card) -> Any:
    ends = [f"{symbol}</w>" for symbol in _BYTES]
    special = ["<|startoftext|>", "<|endoftext|>"]
    return _of("CLIPTokenizer", vocab=_numbered([*_BYTES, *ends, *special]), merges=[])


def _modernbert(_: Card) -> Any:
    special = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[Q] ", "[D] "]
    form = "[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]"
    return _bytewise(special, *form)


def _decoder(card: Card) -> Any:
    """Models that are read at the last token have one put there."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    encode = card.tasks.encode
    last = encode is not None and encode.dense is not None and encode.dense.pooling == "last"
    return _bytewise(special, "$A <|endoftext|>" if last else "$A")


def _bytewise(special: list[str], single: str, pair: str | None = None) -> Any:
    vocabulary = _numbered([*special, *_BYTES])
    made = Tokenizer(models.BPE(vocabulary, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(special)
    used = [(token, vocabulary[token]) for token in special if token in single]
    made.post_processor = processors.TemplateProcessing(single, pair, special_tokens=used)
    return _of("PreTrainedTokenizerFast", tokenizer_object=made, pad_token=special[0])


def _of(name: str, **given: Any) -> Any:
    return getattr(transformers, name)(**given)


_KINDS: dict[str, Callable[[Card], Any]] = {
    "bert": _bert,
    "clip": _clip,
    "colmodernvbert": lambda _: vbert(),
    "colpali": lambda _: pali(),
    "deberta-v2": _deberta,
    "distilbert": _bert,
    "electra": _bert,
    "gte": _xlm_roberta,
    "llama": _decoder,
    "modernbert": _modernbert,
    "mpnet": _mpnet,
    "new": _bert,
    "nomic_bert": _bert,
    "qwen3": _decoder,
    "roberta": _roberta,
    "siglip": _t5,
    "siglip2": _gemma,
    "t5": _t5,
    "xlm-roberta": _xlm_roberta,
}
