"""Texts that T5 writes against those that transformers generates, whatever is written beside them."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from shoal.errors import ModelLoadFailed, TooManyTokens
from shoal.runtimes.base import OutOfMemory
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import from_wire
from shoal.wire.socket import Chunk, Generated
from tests.runtimes import letters
from tests.runtimes.torch.families.t5_row import T5
from tests.runtimes.torch.generating import texts

#: Of a prompt, and of a text.
MOST = 300
LENGTHS = [5, 1, 90, 17, 300, 64, 33]


def load(runtime: TorchRuntime, folder: Path, **changes: Any) -> None:
    texts.load(runtime, folder, "t5", **({"max_tokens": MOST} | changes))


@pytest.mark.parametrize("kind", texts.T5_KINDS)
def test_penalties_are_the_references(runtime: TorchRuntime, tmp_path: Path, kind: str) -> None:
    """Seven prompts in three places, whose texts are of seven lengths: they join and leave in the midst of
    others. What is written counts, not what was read; and texts do not repeat themselves."""
    model = texts.make_t5(tmp_path, kind)
    load(runtime, tmp_path)
    prompts = texts.prompts(LENGTHS)
    news = [12 + 5 * number for number in range(len(prompts))]
    begun = [
        texts.asked(batch, prompt, new, repetition=5.0)
        for batch, (prompt, new) in enumerate(zip(prompts, news, strict=True))
    ]
    ours = texts.generated(runtime, *begun)
    for batch, (prompt, new) in enumerate(zip(prompts, news, strict=True)):
        theirs = texts.greedy(model, prompt, new, repetition_penalty=5.0)
        assert ours[batch].tokens == theirs
        assert len(set(theirs)) > 8, "more than a loop"
        assert ours[batch].over == Generated(batch, "length", new, ours[batch].ended.seconds)


def test_logprobs_are_the_references(runtime: TorchRuntime, tmp_path: Path) -> None:
    """Of the longest text that there may be, so that all distances come."""
    model = texts.make_t5(tmp_path, "gated")
    load(runtime, tmp_path)
    (prompt,) = texts.prompts([20])
    text = texts.generated(runtime, texts.asked(1, prompt, 999, logprobs=0, temperature=1.0))[1]
    assert len(text.tokens) == MOST
    written = torch.tensor([[0, *text.tokens[:-1]]])
    with torch.inference_mode():
        logits = model(torch.tensor([prompt]), decoder_input_ids=written).logits[0]
    logs = logits.log_softmax(1)[range(MOST), text.tokens]
    np.testing.assert_allclose(text.logprobs, logs.numpy(), atol=1e-4)


def test_beside_others_a_text_is_what_it_is_alone(runtime: TorchRuntime, tmp_path: Path) -> None:
    """Greedy and drawn ones that come one after the other, in the middle of each other."""
    texts.make_t5(tmp_path, "gated")
    load(runtime, tmp_path)
    kinds: list[dict[str, Any]] = [
        {},
        {"temperature": 1.0, "seed": 5},
        {"temperature": 0.7, "top_p": 0.8, "seed": 6, "presence": 0.5},
        {"temperature": 1.2, "top_k": 20, "min_p": 0.02, "seed": 7},
    ]
    begun = [
        texts.asked(n, prompt, 35, **kind)
        for n, (prompt, kind) in enumerate(zip(texts.prompts([40, 8, 200, 25]), kinds, strict=True))
    ]
    alone = {n: texts.generated(runtime, one)[n].tokens for n, one in enumerate(begun)}
    chunks: defaultdict[int, list[Chunk]] = defaultdict(list)
    over: set[int] = set()

    def hear() -> None:
        for message in runtime.step():
            assert message.batch is not None
            if isinstance(message, Chunk):
                chunks[message.batch].append(message)
            else:
                over.add(message.batch)

    for sequence in begun:
        runtime.begin(sequence)
        for _ in range(5):
            hear()
    while len(over) < len(begun):
        hear()
    assert {n: texts.tokens_of(of) for n, of in chunks.items()} == alone


def test_an_id_of_stop_ends_it_and_is_not_told(runtime: TorchRuntime, tmp_path: Path) -> None:
    texts.make_t5(tmp_path, "gated")
    load(runtime, tmp_path)
    (prompt,) = texts.prompts([20])
    drawn: dict[str, Any] = {"temperature": 1.0, "seed": 3}
    whole = texts.generated(runtime, texts.asked(1, prompt, 30, **drawn))[1].tokens
    end = next(n for n, token in enumerate(whole) if n > 4 and token not in whole[:n])
    text = texts.generated(runtime, texts.asked(2, prompt, 30, stop=[whole[end]], **drawn))[2]
    assert text.tokens == whole[:end]
    assert (text.ended.finish, text.ended.new_tokens) == ("stop", end + 1)


def test_a_grammar_is_kept(runtime: TorchRuntime, tmp_path: Path) -> None:
    """From the first token on, of which the one that texts begin with is none; beside a text that has no
    grammar, and is what it is alone."""
    texts.make_t5(tmp_path, "original", vocab_size=300)
    tokenizer = letters.save(tmp_path)
    load(runtime, tmp_path)
    free = texts.asked(2, [9, 8, 7], 20, temperature=1.0, seed=2)
    alone = texts.generated(runtime, free)[2].tokens
    schema = '{"type": "object", "properties": {"n": {"enum": [1, 22]}}, "required": ["n"]}'
    kinds = [("json_schema", schema), ("regex", "(ab|cd){3}")]
    kept = [
        texts.asked(n, [5, 6, 7], 60, grammar=kind, temperature=1.0, seed=n, stop=[letters.END])
        for n, kind in enumerate(kinds)
    ]
    said = texts.generated(runtime, *kept, free)
    assert tokenizer.decode(said[0].tokens) in ('{"n": 1}', '{"n": 22}')
    assert re.fullmatch(kinds[1][1], tokenizer.decode(said[1].tokens))
    assert [said[n].ended.finish for n in range(2)] == ["stop", "stop"]
    assert said[2].tokens == alone


def test_prompts_are_read_together_as_far_as_there_is_room(
    runtime: TorchRuntime, tmp_path: Path
) -> None:
    """The first pass has room for 256 tokens; what is read whole writes its first token at once."""
    texts.make_t5(tmp_path, "original")
    load(runtime, tmp_path)
    for batch, prompt in enumerate(texts.prompts([100, 120, 60])):
        runtime.begin(texts.asked(batch, prompt, 5))
    assert [message.batch for message in runtime.step()] == [0, 1]
    assert [message.batch for message in runtime.step()] == [0, 1, 2]


def test_a_prompt_is_read_whole_however_little_room_there_is(
    runtime: TorchRuntime, tmp_path: Path
) -> None:
    model = texts.make_t5(tmp_path, "original")
    load(runtime, tmp_path, options={"pass_tokens": 16})
    (prompt,) = texts.prompts([MOST])
    assert texts.generated(runtime, texts.asked(1, prompt, 3))[1].tokens == texts.greedy(
        model, prompt, 3
    )


def test_what_was_read_is_read_again(runtime: TorchRuntime, tmp_path: Path) -> None:
    """A prompt that begins as another is another one from its first token on."""
    model = texts.make_t5(tmp_path, "gated")
    load(runtime, tmp_path)
    shared, tail = texts.prompts([64, 9])
    for prompt in (shared, shared + tail, shared):
        text = texts.generated(runtime, texts.asked(1, prompt, 20, repetition=1.5))[1]
        assert text.tokens == texts.greedy(model, prompt, 20, repetition_penalty=1.5)
        assert text.ended.cached_tokens == 0


def test_a_hundred_called_off_leave_all_room(runtime: TorchRuntime, tmp_path: Path) -> None:
    """After them one begins at once that needs all places, and is what it was before."""
    texts.make_t5(tmp_path, "gated")
    load(runtime, tmp_path, options={"cache_tokens": 2 * MOST})
    (whole,) = texts.prompts([MOST])
    largest = texts.asked(1000, whole, MOST, repetition=1.5)
    before = texts.generated(runtime, largest)[1000].tokens
    rng = random.Random(4)
    under_way: list[int] = []
    for batch, prompt in enumerate(texts.prompts([rng.randrange(1, 150) for _ in range(100)])):
        runtime.begin(texts.asked(batch, prompt, 100))
        under_way.append(batch)
        for _ in range(rng.randrange(4)):
            runtime.step()
        while len(under_way) > 4:
            ended = runtime.end(under_way.pop(rng.randrange(len(under_way))))
            assert ended.finish == "cancelled"
    for batch in under_way:
        runtime.end(batch)
    assert runtime.step() == []
    runtime.begin(largest)
    (first,) = runtime.step()
    assert isinstance(first, Chunk)
    rest = texts.finished(runtime, [1000])[1000].tokens
    assert from_wire(first.tokens).tolist() + rest == before


@pytest.mark.parametrize(
    ("prompt", "new", "error", "says"),
    [
        ([3] * (MOST + 1), 5, TooManyTokens, "has 301 tokens; m takes 300$"),
        ([3] * 200, 250, OutOfMemory, "200 tokens and 250 new ones need 450 places; 'm' has 400"),
    ],
)
def test_what_can_never_be_is_refused(
    runtime: TorchRuntime,
    tmp_path: Path,
    prompt: list[int],
    new: int,
    error: type[Exception],
    says: str,
) -> None:
    texts.make_t5(tmp_path, "original")
    load(runtime, tmp_path, options={"cache_tokens": 400})
    with pytest.raises(error, match=says):
        runtime.begin(texts.asked(1, prompt, new))
    assert runtime.step() == []


def test_the_bytes_of_keys_are_told(runtime: TorchRuntime, tmp_path: Path) -> None:
    """Where nothing is said there is room for the longest prompt and text."""
    texts.make_t5(tmp_path, "fewer layers")
    sizes = []
    for options in ({"cache_tokens": 1000}, {"cache_tokens": 3000}, {}):
        load(runtime, tmp_path, options=options, sequences=1)
        sizes.append(runtime.stats().models["m"])
    # One layer of the decoder, keys and values, four heads of 12, float32.
    place = 2 * 4 * 12 * 4
    assert sizes[1] - sizes[0] == 2000 * place
    assert sizes[0] - sizes[2] == (1000 - 2 * MOST) * place


def test_half_precision(runtime: TorchRuntime, tmp_path: Path) -> None:
    """Of what it says, each token is one of the likeliest by the reference."""
    model = texts.make_t5(tmp_path, "gated")
    load(runtime, tmp_path, dtype="bfloat16")
    (prompt,) = texts.prompts([30])
    tokens = texts.generated(runtime, texts.asked(1, prompt, 25))[1].tokens
    with torch.inference_mode():
        written = torch.tensor([[0, *tokens[:-1]]])
        logits = model(torch.tensor([prompt]), decoder_input_ids=written).logits[0].numpy()
    assert (logits.max(1) - logits[range(25), tokens]).max() < 0.1 * np.ptp(logits)


def test_an_encoder_alone_writes_nothing(runtime: TorchRuntime, tmp_path: Path) -> None:
    T5.make("encoder", tmp_path, n_positions=MOST)
    with pytest.raises(ModelLoadFailed, match=r"missing tensor: decoder\.block\.0"):
        load(runtime, tmp_path)


def test_texts_begin_with_the_token_that_config_says(runtime: TorchRuntime, tmp_path: Path) -> None:
    model = texts.make_t5(tmp_path, "gated", decoder_start_token_id=7)
    load(runtime, tmp_path)
    (prompt,) = texts.prompts([20])
    assert texts.generated(runtime, texts.asked(1, prompt, 9))[1].tokens == texts.greedy(
        model, prompt, 9
    )
