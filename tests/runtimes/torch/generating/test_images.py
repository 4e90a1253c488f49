"""Texts that follow images, against those of transformers, whatever is generated beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.errors import InvalidRequest, ModelLoadFailed
from shoal.runtimes.generating.pace import Pace
from shoal.runtimes.torch.families.pictures import Pictures
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import to_wire
from shoal.wire.socket import Chunk, Generate
from tests.runtimes.torch import made, seeing
from tests.runtimes.torch.generating import texts

#: Of a look: two for each of the tower's two blocks, its norm, and what joins its rows.
STAGES = 2 * 2 + 2


@pytest.fixture
def model(tmp_path: Path) -> Any:
    return seeing.make(tmp_path)


def loaded(runtime: TorchRuntime, folder: Path, **changes: Any) -> TorchRuntime:
    texts.load(runtime, folder, "idefics3", **changes)
    return runtime


@pytest.mark.parametrize("kind", ["idefics3", "smolvlm"])
@pytest.mark.parametrize("tied", [True, False])
def test_greedy_texts_are_the_references(
    runtime: TorchRuntime, tmp_path: Path, kind: str, tied: bool
) -> None:
    """Of one image, of several, and of none, all at once; prompts in pieces that part images."""
    model = seeing.make(tmp_path, kind, tie_word_embeddings=tied)
    loaded(runtime, tmp_path, options={"pass_tokens": 16})
    prompts = [seeing.prompt(count, seed=count) for count in (1, 2, 17, 3)]
    (plain,) = texts.prompts([30])
    plain = [token for token in plain if token != seeing.PLACE]
    begun = [seeing.asked(n, given, 25) for n, given in enumerate(prompts)]
    ours = texts.generated(runtime, *begun, texts.asked(9, plain, 25))
    for n, given in enumerate(prompts):
        assert ours[n].tokens == seeing.greedy(model, given, 25)
    assert ours[9].tokens == texts.greedy(model, plain, 25)
    said = [tuple(text.tokens) for text in ours.values()]
    assert len(set(said)) == len(said), "what is said depends on what is seen"


def test_logprobs_are_the_references(runtime: TorchRuntime, model: Any, tmp_path: Path) -> None:
    loaded(runtime, tmp_path)
    ids, images = seeing.prompt(2)
    text = texts.generated(runtime, seeing.asked(1, (ids, images), 10, logprobs=0))[1]
    theirs = seeing.logits(model, (ids + text.tokens, images)).log_softmax(1).numpy()
    rows = theirs[len(ids) - 1 : -1]
    np.testing.assert_allclose(text.logprobs, rows[range(10), text.tokens], atol=1e-4)


def test_a_prefix_is_shared_by_those_who_see_the_same(
    runtime: TorchRuntime, model: Any, tmp_path: Path
) -> None:
    """Equal tokens with another image, last or first, are computed anew from there on."""
    loaded(runtime, tmp_path)
    ids, images = seeing.prompt(9, around=5)
    other, last = images.copy(), images.copy()
    other[0, 3, 3] ^= 255
    last[-1, 3, 3] ^= 255
    first = texts.generated(runtime, seeing.asked(1, (ids, images), 20))[1]
    assert first.ended.cached_tokens == 0
    cached = {}
    for n, given in enumerate([(ids, images), (ids, other), (ids, last)]):
        text = texts.generated(runtime, seeing.asked(n + 2, given, 20))[n + 2]
        assert text.tokens == seeing.greedy(model, given, 20)
        cached[n] = text.ended.cached_tokens
    whole = (len(ids) - 1) // 16 * 16
    assert cached == {0: whole, 1: 0, 2: (len(ids) - 9) // 16 * 16}


def test_a_conversation_goes_on_behind_its_image(
    runtime: TorchRuntime, model: Any, tmp_path: Path
) -> None:
    """What was computed of image, question and answer is there when the next question comes."""
    loaded(runtime, tmp_path)
    ids, images = seeing.prompt(3)
    never = {seeing.PLACE: -1e6}
    first = texts.generated(runtime, seeing.asked(1, (ids, images), 30, bias=never))[1]
    longer = ids + first.tokens + [7, 8, 9]
    text = texts.generated(runtime, seeing.asked(2, (longer, images), 20))[2]
    assert text.ended.cached_tokens == (len(ids) + 29) // 16 * 16
    assert text.tokens == seeing.greedy(model, (longer, images), 20)


def test_an_image_is_looked_at_once(
    runtime: TorchRuntime, model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By two texts of one prompt and one of another with the same image, in pieces."""
    loaded(runtime, tmp_path, options={"pass_tokens": 16}, sequences=3)
    seen = _looked_at(monkeypatch)
    given = seeing.prompt(6)
    ids, _ = seeing.prompt(1, around=2)
    alike = ids, given[1][:1]
    begun = [seeing.asked(n, of, 5) for n, of in enumerate([given, given, alike])]
    ours = texts.generated(runtime, *begun)
    assert ours[0].tokens == ours[1].tokens == seeing.greedy(model, given, 5)
    assert ours[2].tokens == seeing.greedy(model, alike, 5)
    assert sum(seen) == 6


def test_with_each_piece_only_its_images_are_looked_at(
    runtime: TorchRuntime, model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that texts beside them are not held up by all at once."""
    loaded(runtime, tmp_path, options={"pass_tokens": 16})
    seen = _looked_at(monkeypatch)
    texts.generated(runtime, seeing.asked(1, seeing.prompt(24), 3))
    assert seen == [1] * 24


def test_texts_go_on_between_the_stages_of_a_look(
    runtime: TorchRuntime, model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And prompts without images are read, where a pass has time for one stage; all say what they would."""
    loaded(runtime, tmp_path, options={"pass_tokens": 16}, sequences=9)
    events: list[str] = []
    _slow(monkeypatch, lambda: events.append("stage"))
    plain = [[t for t in ids if t != seeing.PLACE] for ids in texts.prompts([6] * 7)]
    for batch, ids in enumerate(plain):
        runtime.begin(texts.asked(batch, ids, 80))
    chunks: dict[int, list[Chunk]] = {batch: [] for batch in range(9)}
    while not all(chunks[batch] for batch in range(7)):
        _step(runtime, chunks)
    given, (late,) = seeing.prompt(3), texts.prompts([30], seed=8)
    late = [token for token in late if token != seeing.PLACE]
    runtime.begin(seeing.asked(7, given, 5))
    runtime.begin(texts.asked(8, late, 5))
    while not chunks[7]:
        events.append(f"pass of {len(_step(runtime, chunks))}")
    assert events.count("stage") == 3 * STAGES
    assert not any(pair == ("stage", "stage") for pair in pairwise(events))
    assert all(int(event.split()[-1]) >= 7 for event in events if event != "stage")
    assert len(chunks[8]) == 5, "the prompt behind it was read meanwhile"
    for _ in range(80):
        _step(runtime, chunks)
    assert texts.tokens_of(chunks[7]) == seeing.greedy(model, given, 5)
    for batch, ids, new in [*((n, ids, 80) for n, ids in enumerate(plain)), (8, late, 5)]:
        assert texts.tokens_of(chunks[batch]) == texts.greedy(model, ids, new)


def test_an_image_that_others_wait_for_is_looked_at_to_its_end(
    runtime: TorchRuntime, model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, though the first that asked was called off in the middle of the look."""
    loaded(runtime, tmp_path, options={"pass_tokens": 16})
    seen, stages = _looked_at(monkeypatch), [0]
    _slow(monkeypatch, lambda: stages.append(stages[-1] + 1))
    given = seeing.prompt(1)
    for n in (1, 2):
        runtime.begin(seeing.asked(n, given, 5))
    while stages[-1] < 2:
        runtime.step()
    assert runtime.end(1).finish == "cancelled"
    text = texts.finished(runtime, [2])[2]
    assert text.tokens == seeing.greedy(model, given, 5)
    assert (seen, stages[-1]) == ([1], STAGES)


def _slow(monkeypatch: pytest.MonkeyPatch, told: Callable[[], object]) -> None:
    """No pass has time for more than one stage, the least; `told` of each."""
    look = Pictures.look

    def telling(self: Pictures, images: Any) -> Iterator[Any]:
        for rows in look(self, images):
            told()
            yield rows

    monkeypatch.setattr(Pictures, "look", telling)
    monkeypatch.setattr(Pace, "room_s", lambda self, prompts, texts: 0.0)


def _step(runtime: TorchRuntime, chunks: dict[int, list[Chunk]]) -> list[Chunk]:
    """One pass, and which tokens came of it."""
    came = [message for message in runtime.step() if isinstance(message, Chunk)]
    for chunk in came:
        chunks[chunk.batch].append(chunk)
    return came


def _looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images each look is of; the list grows."""
    seen: list[int] = []
    look = Pictures.look

    def told(self: Pictures, images: Any) -> Any:
        seen.append(len(images))
        return look(self, images)

    monkeypatch.setattr(Pictures, "look", told)
    return seen


def test_an_end_lets_go_of_images(
    runtime: TorchRuntime, model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was called off before it began, and one in the middle of a look."""
    loaded(runtime, tmp_path, options={"pass_tokens": 16}, sequences=1)
    for n in (1, 2):
        runtime.begin(seeing.asked(n, seeing.prompt(12, seed=n), 5))
    stages: list[str] = []
    _slow(monkeypatch, lambda: stages.append("one"))
    while not stages:
        runtime.step()
    assert len(stages) == 1
    assert [runtime.end(n).finish for n in (2, 1)] == ["cancelled"] * 2
    given = seeing.prompt(2)
    text = texts.generated(runtime, seeing.asked(3, given, 5))[3]
    assert text.tokens == seeing.greedy(model, given, 5)


def test_the_place_of_an_image_may_be_generated(runtime: TorchRuntime, tmp_path: Path) -> None:
    """It is a token as any other then, as with the reference."""
    model = seeing.make(tmp_path)
    loaded(runtime, tmp_path)
    ids, images = seeing.prompt(1)
    biased = seeing.asked(1, (ids, images), 6, bias={seeing.PLACE: 1e6})
    assert texts.generated(runtime, biased)[1].tokens == [seeing.PLACE] * 6
    text = texts.generated(runtime, seeing.asked(2, (ids, images), 6))[2]
    assert text.tokens == seeing.greedy(model, (ids, images), 6)


@pytest.mark.parametrize(
    ("count", "images", "says"),
    [
        (1, None, "0 images of 4 tokens each, and 4 tokens"),
        (2, 1, "1 images of 4 tokens each, and 8 tokens"),
        (0, 1, "1 images of 4 tokens each, and 0 tokens"),
    ],
)
def test_images_that_are_not_those_of_the_prompt_are_refused(
    runtime: TorchRuntime, model: Any, tmp_path: Path, count: int, images: int | None, says: str
) -> None:
    loaded(runtime, tmp_path)
    ids = [5] + [seeing.PLACE] * seeing.TOKENS * count
    inputs = None if images is None else [to_wire(np.zeros((images, 16, 16, 3), np.uint8))]
    plain = texts.asked(1, ids, 5)
    with pytest.raises(InvalidRequest, match=says):
        runtime.begin(Generate(1, "m", plain.tokens, plain.sampling, inputs=inputs))
    assert runtime.step() == []


def test_images_of_another_size_are_refused(
    runtime: TorchRuntime, model: Any, tmp_path: Path
) -> None:
    loaded(runtime, tmp_path)
    given = seeing.asked(1, seeing.prompt(1), 5)
    inputs = [to_wire(np.zeros((1, 8, 16, 3), np.uint8))]
    with pytest.raises(InvalidRequest, match=r"of shape \[8, 16, 3\], and the model takes images"):
        runtime.begin(Generate(1, "m", given.tokens, given.sampling, inputs=inputs))
    twice = [*(given.inputs or ()), *(given.inputs or ())]
    with pytest.raises(InvalidRequest, match="one array, and 2 came"):
        runtime.begin(Generate(1, "m", given.tokens, given.sampling, inputs=twice))


def test_a_model_of_texts_reads_no_images(runtime: TorchRuntime, tmp_path: Path) -> None:
    texts.make("llama", tmp_path)
    texts.load(runtime, tmp_path)
    with pytest.raises(InvalidRequest, match="'m' reads no images"):
        runtime.begin(seeing.asked(1, seeing.prompt(1), 5))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"scale_factor": 3}, "4 squares a side, no multiple of 3"),
        ({"image_token_id": 101}, "image_token_id 101 is outside of the vocabulary of 101"),
        ({"text_config": {"model_type": "mistral"}}, "mistral"),
    ],
)
def test_what_is_not_computed_is_refused(
    runtime: TorchRuntime, tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    seeing.make(tmp_path)
    made.change_config(tmp_path, changes)
    with pytest.raises(ModelLoadFailed, match=says):
        loaded(runtime, tmp_path)
