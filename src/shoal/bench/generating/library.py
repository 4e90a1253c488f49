"""A library that generates, in a process that serves nobody: transformers' own `generate`, and mistral.rs.

Started as ``python -m shoal.bench.generating.library NAME FOLDER PLACES``, then asked `Turn`s. Both
compute in float32, as the torch runtime does on a processor.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
import numpy as np

from shoal.bench.generating.streams import Asked, Stream
from shoal.bench.piped import Helper, serve

#: Of the packages, as they are imported and installed.
NAMES = ("transformers", "mistralrs")
#: A conversation of one message is that message, and nothing around it.
_TEMPLATE = "{{ messages[0]['content'] }}"


class Turn(msgspec.Struct, frozen=True):
    """Texts that are asked at once."""

    asked: list[Asked]


class Told(msgspec.Struct, frozen=True):
    """What came of them."""

    streams: list[Stream]


#: All texts of a turn, `places` of them at a time.
Generates = Callable[[list[Asked]], list[Stream]]


def library(name: str, folder: Path, places: int, env: Mapping[str, str]) -> Helper[Turn, Told]:
    """The library with the model of `folder`, in a process with `env` added."""
    module = "shoal.bench.generating.library"
    return Helper(module, Told, (name, str(folder), str(places)), env)


def _transformers(folder: Path, places: int) -> Generates:
    """It takes a batch and gives it back whole: those that come later wait, and the longest text decides."""
    from transformers import AutoModelForCausalLM, BatchFeature

    model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")

    def batch(asked: list[Asked], began: float) -> list[Stream]:
        longest = max(len(one.prompt) for one in asked)
        ids, mask = np.zeros((2, len(asked), longest), np.int64)
        for row, one in enumerate(asked):
            ids[row, longest - len(one.prompt) :] = one.prompt
            mask[row, longest - len(one.prompt) :] = 1
        given = BatchFeature({"input_ids": ids, "attention_mask": mask}, tensor_type="pt")
        times: list[float] = []

        def came(tokens: Any, *_: Any) -> Any:
            times.append(time.perf_counter() - began)
            return tokens[:, 0] < 0  # none is over

        made = model.generate(
            **given,
            max_new_tokens=max(one.new_tokens for one in asked),
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
            stopping_criteria=[came],
        )
        texts = made[:, longest:].tolist()
        return [
            Stream(0.0, times[: one.new_tokens], ids[: one.new_tokens])
            for one, ids in zip(asked, texts, strict=True)
        ]

    def generate(asked: list[Asked]) -> list[Stream]:
        began, found = time.perf_counter(), []
        for at in range(0, len(asked), places):
            found += batch(asked[at : at + places], began)
        return found

    return generate


def _mistralrs(folder: Path, places: int) -> Generates:
    """It takes texts, each by a thread that waits for its pieces; it counts tokens and tells no ids."""
    from mistralrs import ChatCompletionRequest, ModelDType, Runner, Which
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as home:
        template = Path(home) / "template.jinja"
        template.write_text(_TEMPLATE)
        model = Which.Plain(model_id=str(folder), dtype=ModelDType.F32)
        runner = Runner(model, max_seqs=places, prefix_cache_n=0, jinja_explicit=str(template))

    beginning = Lock()  # it refuses where two begin at the same moment

    def one(asked: Asked, began: float) -> Stream:
        request = ChatCompletionRequest(
            messages=[{"role": "user", "content": tokenizer.decode(asked.prompt)}],
            model="default",
            max_tokens=asked.new_tokens,
            temperature=0.0,
            stream=True,
            ignore_eos=True,
        )
        with beginning:
            pieces = runner.send_chat_completion_request(request)
        return Stream(0.0, [time.perf_counter() - began for _ in pieces])

    def generate(asked: list[Asked]) -> list[Stream]:
        began = time.perf_counter()
        with ThreadPoolExecutor(places) as pool:
            return list(pool.map(lambda text: one(text, began), asked))

    return generate


_MADE: dict[str, Callable[[Path, int], Generates]] = {
    "transformers": _transformers,
    "mistralrs": _mistralrs,
}

if __name__ == "__main__":
    # Loaded when it is first asked: what it prints meanwhile would stand between the messages.
    made = cache(lambda: _MADE[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3])))
    serve(Turn, lambda turn: Told(made()(turn.asked)))
