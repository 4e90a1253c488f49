"""Texts against those that transformers generates, whatever is generated beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.errors import InvalidRequest, ModelLoadFailed, TooManyTokens, UnknownModel
from shoal.runtimes.base import OutOfMemory
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.socket import Chunk, Failed, Generate, Generated, Sampling
from tests.runtimes import letters
from tests.runtimes.torch import made
from tests.runtimes.torch.generating import texts


def test_logprobs_are_the_references(runtime: TorchRuntime, tmp_path: Path) -> None:
    model = texts.make("qwen3", tmp_path, head_dim=16)
    texts.load(runtime, tmp_path, "qwen3")
    (prompt,) = texts.prompts([20])
    text = texts.generated(runtime, texts.asked(1, prompt, 12, logprobs=3))[1]
    logits = texts.logits(model, prompt + text.tokens)[19:-1].astype(np.float64)
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    np.testing.assert_allclose(text.logprobs, logs[range(12), text.tokens], atol=1e-4)
    for chunk, row in zip(text.chunks, logs, strict=True):
        assert chunk.top_ids is not None and chunk.top_logprobs is not None
        best = np.argsort(-row)[:3]
        assert from_wire(chunk.top_ids).tolist() == [best.tolist()]
        np.testing.assert_allclose(from_wire(chunk.top_logprobs)[0], row[best], atol=1e-4)


@pytest.mark.parametrize("penalty", [1.3, 0.8])
def test_penalties_are_the_references(
    runtime: TorchRuntime, tmp_path: Path, penalty: float
) -> None:
    model = texts.make("llama", tmp_path)
    texts.load(runtime, tmp_path)
    prompts = texts.prompts([30, 9])
    begun = [texts.asked(n, prompt, 40, repetition=penalty) for n, prompt in enumerate(prompts)]
    for n, text in texts.generated(runtime, *begun).items():
        assert text.tokens == texts.greedy(model, prompts[n], 40, repetition_penalty=penalty)


def test_beside_others_a_text_is_what_it_is_alone(runtime: TorchRuntime, tmp_path: Path) -> None:
    """Greedy and drawn ones that come one after the other, in the middle of each other."""
    texts.make("llama", tmp_path)
    texts.load(runtime, tmp_path, options={"pass_tokens": 32})
    kinds: list[dict[str, Any]] = [
        {},
        {"temperature": 1.0, "seed": 5},
        {"temperature": 0.7, "top_p": 0.8, "seed": 6, "presence": 0.5},
        {"temperature": 1.2, "top_k": 20, "min_p": 0.02, "seed": 7},
    ]
    prompts = texts.prompts([40, 8, 200, 25])
    begun = [
        texts.asked(n, p, 35, **k) for n, (p, k) in enumerate(zip(prompts, kinds, strict=True))
    ]
    alone = {n: texts.generated(runtime, one)[n].tokens for n, one in enumerate(begun)}
    texts.load(runtime, tmp_path, options={"pass_tokens": 32})
    chunks: dict[int, list[Chunk]] = {n: [] for n in range(4)}
    over: set[int] = set()
    for sequence in begun:
        runtime.begin(sequence)
        for _ in range(5):
            _hear(runtime, chunks, over)
    while len(over) < 4:
        _hear(runtime, chunks, over)
    assert {n: texts.tokens_of(of) for n, of in chunks.items()} == alone


def _hear(runtime: TorchRuntime, chunks: dict[int, list[Chunk]], over: set[int]) -> None:
    for message in runtime.step():
        assert message.batch is not None
        if isinstance(message, Chunk):
            chunks[message.batch].append(message)
        else:
            over.add(message.batch)


def test_equal_prefixes_are_computed_once(runtime: TorchRuntime, tmp_path: Path) -> None:
    """Of a prompt that goes on, of one under way, and of a text's own continuation."""
    model = texts.make("gemma3", tmp_path)
    texts.load(runtime, tmp_path, "gemma3")
    shared, *tails = texts.prompts([100, 9, 20, 30])
    first = texts.generated(runtime, texts.asked(1, shared + tails[0], 20))[1]
    assert first.ended.cached_tokens == 0
    begun = [texts.asked(n, shared + tails[n], 20) for n in (1, 2)]
    begun.append(texts.asked(3, shared + tails[0] + first.tokens + [7, 8], 20))
    later = texts.generated(runtime, *begun)
    for sequence in begun:
        prompt = from_wire(sequence.tokens).tolist()
        assert later[sequence.batch].tokens == texts.greedy(model, prompt, 20)
    cached = [later[n].ended.cached_tokens for n in (1, 2, 3)]
    assert cached == [96, 96, 128]


def test_an_id_of_stop_ends_it_and_is_not_told(runtime: TorchRuntime, tmp_path: Path) -> None:
    texts.make("llama", tmp_path)
    texts.load(runtime, tmp_path)
    (prompt,) = texts.prompts([20])
    whole = texts.generated(runtime, texts.asked(1, prompt, 30))[1].tokens
    end = next(n for n, token in enumerate(whole) if n > 4 and token not in whole[:n])
    text = texts.generated(runtime, texts.asked(2, prompt, 30, stop=[whole[end]]))[2]
    assert text.tokens == whole[:end]
    assert (text.ended.finish, text.ended.new_tokens) == ("stop", end + 1)


def test_one_that_ends_gives_back_its_place_and_room(runtime: TorchRuntime, tmp_path: Path) -> None:
    """One place and room for one: each of the others begins once the one before it ended."""
    texts.make("llama", tmp_path)
    texts.load(runtime, tmp_path, sequences=1, options={"cache_tokens": 120})
    prompts = texts.prompts([60, 70, 80])
    for n, prompt in enumerate(prompts):
        runtime.begin(texts.asked(n, prompt, 30))
    runtime.step()
    assert [runtime.end(n).finish for n in (1, 0)] == ["cancelled"] * 2
    text = texts.finished(runtime, [2])[2]
    assert text.over == Generated(2, "length", 30, text.ended.seconds)
    assert runtime.step() == []


def test_a_long_prompt_holds_up_nobody(runtime: TorchRuntime, tmp_path: Path) -> None:
    """In every pass that takes a piece of it the text beside it goes on."""
    texts.make("llama", tmp_path)
    texts.load(runtime, tmp_path, options={"pass_tokens": 16})
    short, long = texts.prompts([10, 600])
    runtime.begin(texts.asked(1, short, 200))
    runtime.step()
    runtime.begin(texts.asked(2, long, 5))
    passes = [runtime.step() for _ in range(38)]
    assert all(any(message.batch == 1 for message in told) for told in passes)
    assert [message.batch for told in passes for message in told].count(2) == 1


def test_two_models_take_turns(runtime: TorchRuntime, tmp_path: Path) -> None:
    for name in ("m", "other"):
        texts.make("llama", tmp_path / name)
        texts.load(runtime, tmp_path / name, model=name)
    (prompt,) = texts.prompts([10])
    runtime.begin(texts.asked(1, prompt, 10))
    runtime.begin(texts.asked(2, prompt, 10, model="other"))
    told = [runtime.step() for _ in range(20)]
    assert [step[0].batch for step in told] == [1, 2] * 10


def test_what_one_is_at_fault_for_leaves_the_others(runtime: TorchRuntime, tmp_path: Path) -> None:
    """A token whose row is no number."""
    model = texts.make("llama", tmp_path)
    model.model.embed_tokens.weight.data[50] = float("nan")
    model.save_pretrained(tmp_path)
    texts.load(runtime, tmp_path)
    good = [token for token in texts.prompts([40])[0] if token != 50]
    both = texts.generated(runtime, texts.asked(1, [5, 50], 9), texts.asked(2, good, 9))
    assert isinstance(both[1].over, Failed) and both[1].over.code == "model_output_invalid"
    assert len(both[2].tokens) == 9


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(runtime: TorchRuntime, tmp_path: Path, dtype: str) -> None:
    """Of what it says, each token is one of the likeliest by the reference."""
    model = texts.make("llama", tmp_path)
    texts.load(runtime, tmp_path, dtype=dtype)
    (prompt,) = texts.prompts([30])
    tokens = texts.generated(runtime, texts.asked(1, prompt, 25))[1].tokens
    logits = texts.logits(model, prompt + tokens)[29:-1]
    assert (logits.max(1) - logits[range(25), tokens]).max() < 0.1 * np.ptp(logits)


def test_a_grammar_is_kept(runtime: TorchRuntime, tmp_path: Path) -> None:
    texts.make("llama", tmp_path, vocab_size=300)
    tokenizer = letters.save(tmp_path)
    texts.load(runtime, tmp_path)
    schema = json.dumps(
        {
            "type": "object",
            "properties": {"n": {"enum": [1, 22, 333]}},
            "required": ["n"],
            "additionalProperties": False,
        }
    )
    asked = [
        texts.asked(n, [5], 60, grammar=kind, temperature=1.0, seed=n, stop=[letters.END])
        for n, kind in enumerate([("json_schema", schema), ("regex", "(ab|cd){3}"), None])
    ]
    said = {
        n: (tokenizer.decode(t.tokens), t.over) for n, t in texts.generated(runtime, *asked).items()
    }
    assert said[0][0] in ('{"n": 1}', '{"n": 22}', '{"n": 333}')
    assert len(said[1][0]) == 6 and set(said[1][0]) <= set("abcd")
    assert [getattr(over, "finish", "") for _, over in said.values()][:2] == ["stop", "stop"]


def test_a_grammar_that_takes_long_holds_up_nobody(runtime: TorchRuntime, tmp_path: Path) -> None:
    """Fifteen hundred patterns are some tenths of a second; the text beside them goes on meanwhile."""
    texts.make("llama", tmp_path, vocab_size=300)
    tokenizer = letters.save(tmp_path)
    texts.load(runtime, tmp_path)
    patterns = {f"k{n}": {"type": "string", "pattern": "^[a-z]{1,50}$"} for n in range(1500)}
    schema = json.dumps({"type": "object", "properties": patterns, "required": list(patterns)})
    runtime.begin(texts.asked(1, [5], 500))
    runtime.begin(texts.asked(2, [6], 1, grammar=("json_schema", schema)))
    both = texts.finished(runtime, [1, 2])
    assert len(both[1].tokens) == 500
    assert tokenizer.decode(both[2].tokens).startswith("{")


def test_a_grammar_that_cannot_be_kept_is_refused(runtime: TorchRuntime, tmp_path: Path) -> None:
    texts.make("llama", tmp_path, vocab_size=300)
    letters.save(tmp_path)
    texts.load(runtime, tmp_path)
    texts.generated(runtime, texts.asked(1, [5], 3, grammar=("regex", "a+")))
    with pytest.raises(InvalidRequest, match="unclosed group"):
        runtime.begin(texts.asked(2, [5], 3, grammar=("regex", "(")))


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"prompt": []}, InvalidRequest, "no tokens"),
        ({"prompt": [3, 101]}, InvalidRequest, "token id 101; m knows 0 to 100"),
        ({"prompt": [3] * 700}, TooManyTokens, "has 700 tokens; m takes 700"),
        ({"prompt": [3] * 300, "new": 300}, OutOfMemory, "need 599 places; 'm' has 400"),
        ({"temperature": -1.0}, InvalidRequest, "temperature"),
        ({"repetition": 0.0}, InvalidRequest, "repetition"),
        ({"bias": {101: 1.0}}, InvalidRequest, "token id 101"),
        ({"logprobs": 102}, InvalidRequest, "logprobs"),
        ({"model": "n"}, UnknownModel, "'n' is not loaded"),
    ],
)
def test_what_can_never_be_is_refused(
    runtime: TorchRuntime,
    tmp_path: Path,
    changes: dict[str, Any],
    error: type[Exception],
    says: str,
) -> None:
    texts.make("llama", tmp_path)
    texts.load(runtime, tmp_path, options={"cache_tokens": 400})
    asked: dict[str, Any] = {"prompt": [3], "new": 5}
    with pytest.raises(error, match=says):
        runtime.begin(texts.asked(1, **asked | changes))
    assert runtime.step() == []


def test_without_places_nothing_is_generated(runtime: TorchRuntime, tmp_path: Path) -> None:
    texts.make("llama", tmp_path)
    texts.load(runtime, tmp_path, sequences=0)
    with pytest.raises(InvalidRequest, match="generate nothing"):
        runtime.begin(Generate(1, "m", to_wire(np.array([3], np.int32)), Sampling(5)))


def test_models_that_generate_nothing_say_so(runtime: TorchRuntime, tmp_path: Path) -> None:
    made.save_bert(tmp_path / "bert")
    with pytest.raises(ModelLoadFailed, match="'bert' generates nothing"):
        texts.load(runtime, tmp_path / "bert", "bert", max_tokens=64)
    texts.make("gemma3", tmp_path / "both", use_bidirectional_attention=True)
    with pytest.raises(ModelLoadFailed, match="those after them too"):
        texts.load(runtime, tmp_path / "both", "gemma3")


def test_the_bytes_of_keys_are_told(runtime: TorchRuntime, tmp_path: Path) -> None:
    texts.make("llama", tmp_path)
    sizes = []
    for places in (1000, 3000):
        texts.load(runtime, tmp_path, options={"cache_tokens": places}, max_tokens=100)
        sizes.append(runtime.stats().models["m"])
    # Two layers, keys and values, two heads of 8, float32.
    assert sizes[1] - sizes[0] == 2000 * 2 * 2 * 2 * 8 * 4
