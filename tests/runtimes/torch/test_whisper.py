"""The family and its transcripts against transformers' own, in float32, on random weights."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.tasks.transcript import (
    LEAST_LOGPROB,
    MOST_COMPRESSION,
    NO_SPEECH,
    TEMPERATURES,
    is_silence,
)
from shoal.wire.arrays import from_wire, to_wire
from tests.runtimes.torch import made, media
from tests.runtimes.torch.speech import (
    ENGLISH,
    FRAMES,
    GERMAN,
    NO_TIMES,
    START,
    TRANSCRIBE,
    TRANSLATE,
    clips,
    heard,
    hidden,
    load,
    reference,
    save,
    terms,
    texts,
)


def test_hidden_states_equal_transformers(runtime: TorchRuntime, tmp_path: Path) -> None:
    model = save(tmp_path, several=False)
    runtime.load(load(tmp_path))
    items = clips(10)
    media.close(media.rows(media.run(runtime, items)), hidden(model, items).mean(1))


@pytest.mark.parametrize("times", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_transcripts_equal_transformers(
    runtime: TorchRuntime, tmp_path: Path, several: bool, times: bool
) -> None:
    model = save(tmp_path, several=several)
    runtime.load(load(tmp_path, times=times))
    items = clips(19)  # several passes
    ours = texts(heard(runtime, items))
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
        ours = texts(heard(runtime, items))
        assert {text[0] for text in ours} == {GERMAN if language == "de" else ENGLISH}
        theirs = reference(model, items, language=language, task="translate")
        assert [text[1:] for text in ours] == theirs


#: As `tasks.transcript` has them. No more than the likeliest 50 tokens is not of Whisper.
FALLBACK: dict[str, Any] = {
    "temperature": TEMPERATURES,
    "compression_ratio_threshold": MOST_COMPRESSION,
    "logprob_threshold": LEAST_LOGPROB,
    "no_speech_threshold": NO_SPEECH,
    "top_k": 0,
}


def test_texts_that_went_wrong_are_said_again_as_transformers_does(
    runtime: TorchRuntime, tmp_path: Path
) -> None:
    model = save(tmp_path, several=False)
    with torch.no_grad():  # so that some texts are sure enough, at once or later
        model.model.decoder.embed_tokens.weight *= 1.4
    model.save_pretrained(tmp_path)
    runtime.load(load(tmp_path))
    items = clips(24)
    done = media.run(runtime, items, "extract")
    temperatures = {round(told[0][1], 1) for told in terms(done)}
    assert len(temperatures) > 2
    ours = texts(done)
    theirs = reference(model, items, return_timestamps=True, **FALLBACK)
    silent = [not text for text in theirs]
    assert [text for text, none in zip(ours, silent, strict=True) if not none] == [
        text for text in theirs if text
    ]
    for told, none in zip(terms(done), silent, strict=True):
        logs = [log for _, log in told[2:]]
        assert is_silence(sum(logs) / len(logs), math.exp(told[1][1])) == none


def test_a_temperature_may_be_given(runtime: TorchRuntime, tmp_path: Path) -> None:
    model = save(tmp_path, several=False)
    runtime.load(load(tmp_path))
    items = clips(6)
    ours = texts(heard(runtime, items, temperature=0.7))
    theirs = reference(
        model, items, return_timestamps=True, temperature=0.7, do_sample=True, top_k=0
    )
    assert ours == theirs


@pytest.mark.parametrize("language", [GERMAN, -1])
def test_a_prompt_stands_before_the_text(
    runtime: TorchRuntime, tmp_path: Path, language: int
) -> None:
    model = save(tmp_path, several=True, prev_sot_token_id=4)
    runtime.load(load(tmp_path))
    items = clips(7)
    prompt = [4, 20, 21, 22]
    ours = texts(heard(runtime, items, *prompt, START, language, TRANSCRIBE))
    options = {"language": "de"} if language == GERMAN else {}
    theirs = reference(
        model,
        items,
        return_timestamps=True,
        task="transcribe",
        prompt_ids=torch.tensor(prompt),
        **options,
    )
    assert [prompt + text[1:] for text in ours] == theirs


def test_clips_of_one_batch_may_begin_in_their_own_ways(
    runtime: TorchRuntime, tmp_path: Path
) -> None:
    save(tmp_path, several=True)
    runtime.load(load(tmp_path))
    items = clips(4)
    ways = [(), (START, GERMAN, TRANSLATE), (4, 20, START, -1, TRANSCRIBE), ()]
    rising = [0.0, 0.0, 0.5, -1.0]
    together = terms(
        media.run(
            runtime,
            items,
            "extract",
            begins=[to_wire(np.array(way, np.int32)) for way in ways],
            temperatures=to_wire(np.array(rising, np.float32)),
        )
    )
    for item, way, temperature, told in zip(items, ways, rising, together, strict=True):
        (alone,) = terms(heard(runtime, [item], *way, temperature=temperature))
        assert [token for token, _ in told] == [token for token, _ in alone]
        np.testing.assert_allclose([n for _, n in told], [n for _, n in alone], atol=1e-4)


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


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_near(runtime: TorchRuntime, tmp_path: Path, dtype: str) -> None:
    model = save(tmp_path, several=True)
    runtime.load(msgspec.structs.replace(load(tmp_path), dtype=dtype))
    items = clips(4)
    theirs = np.asarray(hidden(model, items).mean(1))
    ours = media.rows(media.run(runtime, items))
    assert made.cosines(ours, theirs).min() > 0.999
    assert all(len(text) > 1 for text in texts(media.run(runtime, items, "extract")))
