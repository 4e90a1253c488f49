"""The family and its transcripts against transformers' own, in float32, on random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import WhisperConfig, WhisperForConditionalGeneration

from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import from_wire
from shoal.wire.socket import Done, Load
from tests.runtimes.torch import made, media

Generation: Any = transformers.GenerationConfig
FRAMES = 40
#: Token ids: 0 to 49 are words, then the end, the start, languages, tasks, "no times", times.
END, START, GERMAN, ENGLISH, TRANSCRIBE, TRANSLATE, NO_TIMES = range(50, 57)
SHAPE: dict[str, Any] = {
    "vocab_size": NO_TIMES + 22,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
    "num_mel_bins": 16,
    "max_source_positions": FRAMES // 2,
    "max_target_positions": 24,
    "pad_token_id": END,
    "bos_token_id": END,
    "eos_token_id": END,
    "decoder_start_token_id": START,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}


def save(folder: Path, *, several: bool, **changes: Any) -> Any:
    """A model of one language, or of `several`."""
    torch.manual_seed(3)
    model: Any = WhisperForConditionalGeneration(WhisperConfig(**SHAPE))
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, mean=float("norm.weight" in name), std=0.3)
    with torch.no_grad():  # so that texts end, some sooner and some later
        model.model.decoder.embed_tokens.weight[END] *= 2.5
    rules: dict[str, Any] = {
        "decoder_start_token_id": START,
        "eos_token_id": END,
        "pad_token_id": END,
        "no_timestamps_token_id": NO_TIMES,
        "suppress_tokens": [3, 7, 11, *range(START, NO_TIMES)],
        "begin_suppress_tokens": [5, END],
        "max_initial_timestamp_index": 6,
        "max_length": 24,
        "is_multilingual": several,
        "return_timestamps": False,
    }
    if several:
        rules |= {
            "lang_to_id": {"<|de|>": GERMAN, "<|en|>": ENGLISH},
            "task_to_id": {"transcribe": TRANSCRIBE, "translate": TRANSLATE},
        }
    model.generation_config = Generation(**(rules | changes))
    model.eval().save_pretrained(folder)
    return model


def load(folder: Path, **options: Any) -> Load:
    heads = {"extract": {"head": "transcript"} | options, "dense": {}}
    return made.load(folder, family="whisper", max_tokens=FRAMES // 2, heads=heads)


def clips(count: int, frames: int = FRAMES) -> list[Any]:
    rng = np.random.default_rng(6)
    return list(rng.normal(size=(count, 16, frames)).astype(np.float32))


def texts(done: Done) -> list[list[int]]:
    assert not done.failed, done.failed
    ids, lengths = from_wire(done.arrays["extract"]), from_wire(done.lengths["extract"])
    assert ids.dtype == np.int32
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]


def reference(model: Any, items: list[Any], **options: Any) -> list[list[int]]:
    """One clip at a time: without what a text begins with, up to its end.

    Of the first window alone: where a text ends in the middle of its clip, `generate` goes on there.
    """
    said = []
    for item in items:
        frames = torch.from_numpy(item)[None]
        told = model.generate(frames, num_beams=1, return_segments=True, **options)
        ids = told["segments"][0][0]["result"].tolist()
        begin = (START, TRANSCRIBE, TRANSLATE, NO_TIMES, GERMAN, ENGLISH)
        said.append([token for token in ids if token not in (*begin, END)])
    return said


def test_hidden_states_equal_transformers(runtime: TorchRuntime, tmp_path: Path) -> None:
    model = save(tmp_path, several=False)
    runtime.load(load(tmp_path))
    items = clips(10)
    with torch.inference_mode():
        theirs = model.model.encoder(torch.from_numpy(np.stack(items))).last_hidden_state
    media.close(media.rows(media.run(runtime, items)), theirs.mean(1))


@pytest.mark.parametrize("times", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_transcripts_equal_transformers(
    runtime: TorchRuntime, tmp_path: Path, several: bool, times: bool
) -> None:
    model = save(tmp_path, several=several)
    runtime.load(load(tmp_path, times=times))
    items = clips(19)  # several passes
    ours = texts(media.run(runtime, items, "extract"))
    if several:
        assert {text[0] for text in ours} == {GERMAN, ENGLISH}
        ours = [text[1:] for text in ours]
    options = {"task": "transcribe"} if several else {}
    theirs = reference(model, items, return_timestamps=times, **options)
    assert ours == theirs
    assert len({len(text) for text in ours}) > 1
    if times:
        assert all(text[0] > NO_TIMES for text in ours)


def test_language_and_task_may_be_given(runtime: TorchRuntime, tmp_path: Path) -> None:
    model = save(tmp_path, several=True)
    items = clips(5)
    for language in ("de", "en"):
        runtime.load(load(tmp_path, language=language, task="translate", times=False))
        ours = texts(media.run(runtime, items, "extract"))
        assert {text[0] for text in ours} == {GERMAN if language == "de" else ENGLISH}
        theirs = reference(model, items, language=language, task="translate")
        assert [text[1:] for text in ours] == theirs


def test_a_clip_is_the_same_in_any_batch(runtime: TorchRuntime, tmp_path: Path) -> None:
    save(tmp_path, several=True)
    runtime.load(load(tmp_path))
    items = clips(9)
    together = texts(media.run(runtime, items, "extract"))
    alone = [texts(media.run(runtime, [item], "extract"))[0] for item in items]
    assert together == alone


def test_a_short_clip_is_followed_by_silence(runtime: TorchRuntime, tmp_path: Path) -> None:
    save(tmp_path, several=False)
    runtime.load(load(tmp_path))
    (short,) = clips(1, 11)
    whole = np.full((16, FRAMES), max(short.max() - 2.0, -1.5), np.float32)
    whole[:, :11] = short
    ours = media.rows(media.run(runtime, [short, whole]))
    np.testing.assert_allclose(ours[0], ours[1], atol=1e-6)
    done = media.run(runtime, [clips(1, FRAMES + 1)[0], short], "extract")
    assert "takes sound as float32 of [16, 40]" in done.failed[0].message
    assert from_wire(done.lengths["extract"])[0] == 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"language": "fr"}, "does not know the language 'fr'.*it knows de, en"),
        ({"task": "sing"}, "task"),
    ],
)
def test_what_cannot_be_done_is_refused(
    runtime: TorchRuntime, tmp_path: Path, options: dict[str, Any], why: str
) -> None:
    save(tmp_path, several=True)
    with made.load_fails(why):
        runtime.load(load(tmp_path, **options))


def test_a_model_of_one_language_says_so(runtime: TorchRuntime, tmp_path: Path) -> None:
    save(tmp_path, several=False)
    with made.load_fails("it knows one alone"):
        runtime.load(load(tmp_path, language="de"))
    with made.load_fails("cannot translate"):
        runtime.load(load(tmp_path, task="translate"))
    (tmp_path / "generation_config.json").unlink()
    with made.load_fails(r"generation_config\.json"):
        runtime.load(load(tmp_path))
