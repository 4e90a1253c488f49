"""Tokenizers made from vocabularies, against transformers on the same files."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tokenizers import ByteLevelBPETokenizer, Tokenizer, models, trainers
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import BertTokenizer, RobertaTokenizer

from shoal.errors import ModelLoadFailed
from shoal.worker.vocabulary import read_tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = [
    "",
    "Angela Merkel met Tim Cook in Berlin, didn't she?",
    "Größe XL, Äpfel 2,49 €; naïve café, RÉSUMÉ",
    "日本語 and 한국어 and العربية mixed, 中文没有空格",
    "tabs\tand\nlines\r\n  many   spaces  ",
    "emoji 🐟🐠 and a zero\u200bwidth, a soft\u00adhyphen, a control\x07",
    "[CLS] in a text [MASK] [SEP]",
    "a <mask> here, and</s>there",
    "http://a.b/c?d=e&f=1.5e-10 #tag @name x_y",
    "unbreakablewordwithoutanyspaceinitthatgoesonandon" * 4,
    "e\u0301 is not é until it is composed; ﬁ ligature; Ａ wide",
]


def corpus() -> list[str]:
    pick = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyzäöüßéèñ"
    words = ["".join(pick.choices(letters, k=pick.randint(1, 9))) for _ in range(400)]
    return [*TEXTS, *(" ".join(pick.choices(words, k=12)) for _ in range(200))]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.pre_tokenizer = BertPreTokenizer()
    made.train_from_iterator(
        corpus(), trainers.WordPieceTrainer(vocab_size=900, special_tokens=SPECIAL)
    )
    words = sorted(made.get_vocab().items(), key=lambda item: item[1])
    (folder / "vocab.txt").write_text("\n".join(word for word, _ in words))
    return folder


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("roberta")
    made = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made.train_from_iterator(corpus(), vocab_size=700, special_tokens=special)
    made.save_model(str(folder))
    return folder


def configure(folder: Path, **config: Any) -> Path:
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder / "tokenizer.json"


def assert_equal(ours: Tokenizer, theirs: Any) -> None:
    assert ours.get_vocab_size() == len(theirs)
    for text in corpus():
        assert ours.encode(text).ids == theirs(text)["input_ids"], text
        pair = theirs(text, "a second text")
        assert ours.encode(text, "a second text").ids == pair["input_ids"], text


@pytest.mark.parametrize(
    "config",
    [
        {"do_lower_case": True},
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False},
        {"do_lower_case": False, "tokenize_chinese_chars": False},
        {"do_lower_case": True, "tokenizer_class": "DistilBertTokenizer"},
    ],
    ids=str,
)
def test_word_pieces_are_those_of_bert(bert: Path, config: dict[str, Any]) -> None:
    ours = read_tokenizer(configure(bert, **config))
    assert_equal(ours, BertTokenizer.from_pretrained(bert, **config))
    pair = ours.encode("a fish", "and a second")
    assert (
        pair.type_ids
        == BertTokenizer.from_pretrained(bert, **config)("a fish", "and a second")["token_type_ids"]
    )


@pytest.mark.parametrize("space", [False, True])
def test_byte_pairs_are_those_of_roberta(roberta: Path, space: bool) -> None:
    config: dict[str, Any] = {"add_prefix_space": space, "tokenizer_class": "RobertaTokenizer"}
    ours = read_tokenizer(configure(roberta, **config))
    assert_equal(ours, RobertaTokenizer.from_pretrained(roberta, **config))


def test_the_own_file_comes_first(bert: Path, tmp_path: Path) -> None:
    path = configure(bert, do_lower_case=True)
    made = read_tokenizer(path)
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "vocab.txt").write_text("nothing of use")
    assert read_tokenizer(tmp_path / "tokenizer.json").to_str() == made.to_str()


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, "does not say do_lower_case"),
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "of the kind BertJapaneseTokenizer"),
    ],
)
def test_what_the_files_do_not_say_is_not_guessed(
    bert: Path, config: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ModelLoadFailed, match=reason):
        read_tokenizer(configure(bert, **config))


def test_vocabularies_of_other_kinds(tmp_path: Path, roberta: Path) -> None:
    with pytest.raises(ModelLoadFailed, match=r"neither tokenizer.json nor a vocabulary"):
        read_tokenizer(tmp_path / "tokenizer.json")
    path = configure(tmp_path, do_lower_case=True)
    (tmp_path / "vocab.txt").write_text("<s>\n</s>\n<unk>\na")
    with pytest.raises(ModelLoadFailed, match=r"no \[CLS\]"):
        read_tokenizer(path)
    with pytest.raises(ModelLoadFailed, match="of the kind CLIPTokenizer"):
        read_tokenizer(configure(roberta, tokenizer_class="CLIPTokenizer"))
