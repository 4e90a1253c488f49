"""SmolLM2's own file in llama.cpp: what it generates, alone and beside others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from shoal.errors import ModelLoadFailed, TooManyTokens
from shoal.runtimes.base import OutOfMemory
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.socket import Chunk, Failed, Generate, Generated, Load, Sampling

pytest.importorskip("xllamacpp")

from shoal.runtimes.gguf import library as lib
from shoal.runtimes.gguf.runtime import GgufRuntime

HEADS = {"generate": {"head": "generate"}}
#: <|im_end|>
END = 2


@pytest.fixture(scope="module")
def folder() -> Path:
    return fetch(Catalog.load().card("smollm2-135m-instruct"), cache_dir=None, offline=False)


@pytest.fixture(scope="module")
def runtime(folder: Path) -> Iterator[GgufRuntime]:
    runtime = GgufRuntime()
    runtime.load(load(folder))
    yield runtime
    runtime.unload("chat")


def load(folder: Path, **changes: Any) -> Load:
    return Load("chat", str(folder), "llama", HEADS, max_tokens=512, sequences=4, **changes)


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


class Asking:
    """Generates some at once."""

    def __init__(self, runtime: GgufRuntime, tokenizer: Tokenizer) -> None:
        self._runtime = runtime
        self._tokenizer = tokenizer
        self._number = 0
        self.over: dict[int, Generated | Failed] = {}

    def begin(self, question: str, new_tokens: int = 24, **sampling: Any) -> int:
        text = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        asked: dict[str, Any] = {"temperature": 0.0, "stop": [END]} | sampling
        self._number += 1
        prompt = to_wire(np.array(ids, np.int32))
        self._runtime.begin(Generate(self._number, "chat", prompt, Sampling(new_tokens, **asked)))
        return self._number

    def finish(self, *numbers: int) -> list[str]:
        ids: dict[int, list[int]] = {number: [] for number in numbers}
        while not ids.keys() <= self.over.keys():
            for message in self._runtime.step():
                if isinstance(message, Chunk):
                    ids[message.batch] += from_wire(message.tokens).tolist()
                elif message.batch is not None:
                    self.over[message.batch] = message
        return [self._tokenizer.decode(ids[number]) for number in numbers]

    def __call__(self, question: str, **sampling: Any) -> str:
        return self.finish(self.begin(question, **sampling))[0]


@pytest.fixture
def ask(runtime: GgufRuntime, tokenizer: Tokenizer) -> Asking:
    return Asking(runtime, tokenizer)


def test_it_answers(ask: Asking) -> None:
    assert ask("What is the capital of France?") == "The capital of France is Paris."
    over = ask.over[1]
    assert isinstance(over, Generated)
    assert (over.finish, over.new_tokens) == ("stop", 8)
    assert over.seconds > 0


def test_several_at_once_are_answered_as_alone(ask: Asking) -> None:
    # Where two tokens are nearly as likely, the other texts of a pass decide: none of these has such a place.
    questions = ["What is the capital of France?", "What is the capital of Italy?", "Say hello."]
    alone = [ask(question, new_tokens=8) for question in questions]
    numbers = [ask.begin(question, new_tokens=8) for question in questions * 2]
    assert ask.finish(*numbers) == alone * 2


def test_a_prompt_that_was_computed_costs_nothing_again(ask: Asking) -> None:
    question = "Which river flows through the city of Cologne, and through which others?"
    first = ask(question)
    assert ask(question) == first
    over = ask.over[2]
    assert isinstance(over, Generated)
    assert over.cached_tokens > 20


def test_what_is_asked_again_is_kept_once(ask: Asking) -> None:
    asked = "which river flows through it, and through which other cities?"
    questions = [f"{city}: {asked}" for city in ("Cologne", "Vienna", "Prague")]
    for question in questions * 2:  # one fewer than are kept
        ask(question, new_tokens=4)
    for number in (4, 5, 6):
        over = ask.over[number]
        assert isinstance(over, Generated)
        assert over.cached_tokens > 20


def test_json_of_a_schema(ask: Asking) -> None:
    pytest.importorskip("llguidance")
    schema = '{"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}'
    assert ask("A person.", grammar=("json_schema", schema)).startswith('{"age": ')


def test_one_that_is_ended_gives_its_place_back(ask: Asking, runtime: GgufRuntime) -> None:
    numbers = [ask.begin("Tell a long story.", new_tokens=300) for _ in range(4)]
    for _ in range(6):
        runtime.step()
    for number in numbers:
        assert runtime.end(number).finish == "cancelled"
    assert ask("What is the capital of France?") == "The capital of France is Paris."


def test_what_never_fits_is_refused_where_it_begins(ask: Asking, folder: Path) -> None:
    with pytest.raises(TooManyTokens, match="takes 512"):
        ask.begin("word " * 600)
    small = GgufRuntime()
    small.load(load(folder, options={"cache_tokens": 64}))
    with pytest.raises(OutOfMemory, match="cache_tokens"):
        Asking(small, Tokenizer.from_file(str(folder / "tokenizer.json"))).begin(
            "word " * 40, new_tokens=200
        )
    small.unload("chat")


def test_memory_comes_back(folder: Path) -> None:
    runtime = GgufRuntime()
    loaded = runtime.load(load(folder))
    assert loaded.bytes > 98_000_000
    before = runtime.stats().rss_bytes
    runtime.unload("chat")
    assert runtime.stats().rss_bytes < before - 50_000_000


def test_files_that_are_none(tmp_path: Path) -> None:
    runtime = GgufRuntime()
    with pytest.raises(ModelLoadFailed, match="no GGUF file"):
        runtime.load(load(tmp_path))
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelLoadFailed, match=r"cannot read broken\.gguf"):
        runtime.load(load(tmp_path))
    (tmp_path / "second.gguf").write_bytes(b"")
    with pytest.raises(ModelLoadFailed, match="say which"):
        runtime.load(load(tmp_path))
    with pytest.raises(ModelLoadFailed, match="does nothing else"):
        runtime.load(Load("m", str(tmp_path), "llama", {"dense": {}}, sequences=1))


def test_a_library_of_another_layout_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lib, "_DEFAULTS", lib._DEFAULTS | {"n_ctx": 513})
    lib.library.cache_clear()
    with pytest.raises(ModelLoadFailed, match=f"pip install xllamacpp=={lib.KNOWN}"):
        lib.library()
    lib.library.cache_clear()
