from pathlib import Path

import msgspec
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from shoal.catalog.card import Card, Source
from shoal.catalog.tasks import Dense, EncodeTask, Tasks
from shoal.errors import InvalidItem, InvalidRequest, ModelLoadFailed, ShoalError, TooManyTokens
from shoal.values import EncodeParams
from shoal.worker.prepared import Prepared
from shoal.worker.text import PlainPreparer, TextPreparer

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "a", "fish", "bird", "query:"]
CARD = Card(
    name="tiny",
    source=Source(dir="."),
    family="bert",
    tasks=Tasks(encode=EncodeTask(dense=Dense(4), prompts={"query": "query: "})),
    max_tokens=6,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    vocabulary = {word: i for i, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def one(preparer: TextPreparer, item: str | list[int], **params: object) -> Prepared:
    (out,) = preparer.prepare([item], EncodeParams(**params))  # type: ignore[arg-type]
    if isinstance(out, ShoalError):
        raise out
    return out


def ids(prepared: Prepared) -> list[int]:
    assert prepared.ids is not None
    assert prepared.ids.dtype == "int32"
    return [int(i) for i in prepared.ids]


def test_text_gets_its_special_tokens(folder: Path) -> None:
    preparer = TextPreparer(CARD, folder)
    assert ids(one(preparer, "a fish")) == [1, 4, 5, 2]
    assert ids(one(preparer, "")) == [1, 2]
    assert ids(one(preparer, "a whale")) == [1, 4, 3, 2]


def test_token_ids_equal_their_text_with_or_without_special_tokens(folder: Path) -> None:
    preparer = TextPreparer(CARD, folder)
    assert ids(one(preparer, [4, 5])) == [1, 4, 5, 2]
    assert ids(one(preparer, [1, 4, 5, 2])) == [1, 4, 5, 2]
    assert ids(one(preparer, [])) == [1, 2]
    assert ids(one(preparer, [1, 2])) == [1, 2]
    assert ids(one(preparer, [1])) == [1, 1, 2]


def test_a_tokenizer_that_only_appends(tmp_path: Path) -> None:
    """As Qwen3-Embedding's: bytes, nothing before a text, and after it the token that is read."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: i for i, symbol in enumerate([*alphabet, "<|endoftext|>"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    end = vocabulary["<|endoftext|>"]
    template = processors.TemplateProcessing(
        single="$A <|endoftext|>", special_tokens=[("<|endoftext|>", end)]
    )
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), template])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    preparer = TextPreparer(CARD, tmp_path)
    for text in ("fish", "a b", "\u00fc", ""):
        assert ids(one(preparer, text)) == tokenizer.encode(text).ids
    cut = one(preparer, "many fish")
    assert ids(cut) == [*tokenizer.encode("many ").ids[:5], end]
    assert cut.truncated
    assert ids(one(preparer, tokenizer.encode("fish").ids)) == tokenizer.encode("fish").ids


def test_truncation_keeps_the_special_tokens_and_is_reported(folder: Path) -> None:
    preparer = TextPreparer(CARD, folder)
    cut = one(preparer, "a fish a fish a fish")
    assert ids(cut) == [1, 4, 5, 4, 5, 2]
    assert cut.truncated
    assert not one(preparer, "a fish a fish").truncated
    assert ids(one(preparer, [4] * 9)) == [1, 4, 4, 4, 4, 2]


def test_without_truncation_the_error_says_how_many_and_how_many_may_be(folder: Path) -> None:
    with pytest.raises(TooManyTokens, match=r"8 tokens .* at most 6"):
        one(TextPreparer(CARD, folder), "a fish a fish a fish", truncate=False)


def test_prompts_go_before_text(folder: Path) -> None:
    preparer = TextPreparer(CARD, folder)
    assert ids(one(preparer, "a fish", prompt="query")) == [1, 7, 4, 5, 2]
    with pytest.raises(InvalidItem, match="prompt"):
        one(preparer, [4, 5], prompt="query")
    default = msgspec.structs.replace(
        CARD,
        tasks=Tasks(
            encode=EncodeTask(dense=Dense(4), prompts={"q": "query: "}, default_prompt="q")
        ),
    )
    assert ids(one(TextPreparer(default, folder), "a fish")) == [1, 7, 4, 5, 2]
    assert ids(one(TextPreparer(default, folder), [4])) == [1, 4, 2]


def test_an_instruction_stands_in_place_of_a_prompt(folder: Path) -> None:
    task = EncodeTask(
        dense=Dense(4),
        prompts={"q": "a "},
        default_prompt="q",
        instruction_prompt="{instruction} query: ",
    )
    preparer = TextPreparer(msgspec.structs.replace(CARD, tasks=Tasks(encode=task)), folder)
    assert ids(one(preparer, "fish", instruction="bird")) == [1, 6, 7, 5, 2]
    assert ids(one(preparer, "fish")) == [1, 4, 5, 2]
    with pytest.raises(InvalidItem, match="an instruction cannot be put before token ids"):
        one(preparer, [5], instruction="bird")
    with pytest.raises(InvalidRequest, match="no room for a text: the model takes 6 tokens"):
        one(preparer, "fish", instruction="bird bird bird")
    plain = PlainPreparer(msgspec.structs.replace(CARD, tasks=Tasks(encode=task)))
    (out,) = plain.prepare(["fish"], EncodeParams(instruction="bird"))
    assert isinstance(out, Prepared)
    assert out.text == "bird query: fish"


@pytest.mark.parametrize("token", [-1, 8, 2**40])
def test_ids_outside_the_vocabulary_are_named(folder: Path, token: int) -> None:
    with pytest.raises(InvalidItem, match=rf"token id {token} at position 1 .*0 to 7"):
        one(TextPreparer(CARD, folder), [4, token])


def test_one_bad_item_leaves_the_others(folder: Path) -> None:
    out = TextPreparer(CARD, folder).prepare(["a", [99], "fish"], EncodeParams())
    assert [isinstance(item, ShoalError) for item in out] == [False, True, False]


@pytest.mark.parametrize("content", [None, "", "{}", '{"model": 3}'])
def test_a_missing_or_broken_tokenizer_is_a_load_error(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ModelLoadFailed, match=r"tokenizer\.json"):
        TextPreparer(CARD, tmp_path)


def test_a_tokenizer_that_can_be_read_and_not_used_is_a_load_error(tmp_path: Path) -> None:
    """It has no token for words that it does not know, and raises at the first of them."""
    tokenizer = Tokenizer(models.WordLevel({"fish": 0}, unk_token="[UNK]"))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ModelLoadFailed, match=r"tokenizer\.json cannot be used: .*correct"):
        TextPreparer(CARD, tmp_path)


def test_runtimes_that_take_text_get_text() -> None:
    out = PlainPreparer(CARD).prepare(["fish", [1]], EncodeParams(prompt="query"))
    assert isinstance(out[0], Prepared)
    assert out[0].text == "query: fish"
    assert out[0].length >= 1
    assert isinstance(out[1], InvalidItem)


def test_long_texts_are_read_as_far_as_the_model_reads(folder: Path) -> None:
    preparer = TextPreparer(CARD, folder)
    text = "a fish bird " * 100_000
    cut = one(preparer, text)
    assert cut.truncated
    assert cut.ids is not None
    assert cut.ids.tolist() == [1, 4, 5, 6, 4, 2]
    with pytest.raises(TooManyTokens, match="more than 6 tokens but the model takes at most 6"):
        one(preparer, text, truncate=False)
    asked = one(preparer, text, prompt="query")
    assert asked.ids is not None
    assert asked.ids.tolist() == [1, 7, 4, 5, 6, 2]
    assert one(preparer, "x" * 100_000).length == 3, "one unknown word"
