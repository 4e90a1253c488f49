"""Small random Whispers, clips for them, and what transformers hears."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import WhisperConfig, WhisperForConditionalGeneration

from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import from_wire, to_wire
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


def hidden(model: Any, items: list[Any]) -> torch.Tensor:
    """[items, frames / 2, width], of the encoder."""
    with torch.inference_mode():
        state: torch.Tensor = model.model.encoder(torch.from_numpy(np.stack(items)))[0]
    return state


def terms(done: Done) -> list[list[tuple[int, float]]]:
    """What is told of each clip: an id and a number each."""
    assert not done.failed, done.failed
    ids, values = from_wire(done.indices["extract"]), from_wire(done.arrays["extract"])
    assert ids.dtype == np.int32
    assert values.dtype == np.float32
    ends = np.cumsum(from_wire(done.lengths["extract"]))[:-1]
    parts = zip(np.split(ids, ends), np.split(values, ends), strict=True)
    return [list(zip(part.tolist(), values.tolist(), strict=True)) for part, values in parts]


def texts(done: Done) -> list[list[int]]:
    """Language, words and times of each clip, without the end."""
    return [[token for token, _ in told[2:] if token != END] for told in terms(done)]


def heard(runtime: TorchRuntime, items: list[Any], *begin: int, temperature: float = 0.0) -> Done:
    """All clips as one batch, of which each text is chosen at this temperature."""
    begins = [to_wire(np.array(begin, np.int32))] * len(items)
    temperatures = to_wire(np.full(len(items), temperature, np.float32))
    return media.run(runtime, items, "extract", begins=begins, temperatures=temperatures)


def reference(model: Any, items: list[Any], **options: Any) -> list[list[int]]:
    """One clip at a time: without what a text begins with, up to its end.

    Of the first window alone: where a text ends in the middle of its clip, `generate` goes on there.
    """
    said = []
    for item in items:
        frames = torch.from_numpy(item)[None]
        torch.manual_seed(0)
        told = model.generate(frames, num_beams=1, return_segments=True, **options)
        segments = told["segments"][0]
        result = segments[0]["result"] if segments else torch.zeros(0)
        ids = (result["sequences"] if isinstance(result, dict) else result).tolist()
        begin = (START, TRANSCRIBE, TRANSLATE, NO_TIMES, GERMAN, ENGLISH)
        said.append([token for token in ids if token not in (*begin, END)])
    return said
