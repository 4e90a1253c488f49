"""Tiny generators as transformers saves them, and sequences as the worker sends them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import Gemma3ForCausalLM

from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.socket import Chunk, Failed, Generate, Generated, Load, Sampling
from tests.runtimes.torch.families.row import randomize
from tests.runtimes.torch.families.rows import ROWS

#: As many as the tiny models' ids, but the special ones.
IDS = range(3, 101)


class Text(NamedTuple):
    """What came of a sequence."""

    tokens: list[int]
    over: Generated | Failed
    chunks: list[Chunk]

    @property
    def ended(self) -> Generated:
        assert isinstance(self.over, Generated), self.over
        return self.over

    @property
    def logprobs(self) -> NDArray[np.float32]:
        return np.concatenate([from_wire(c.logprobs) for c in self.chunks if c.logprobs])


def make(family: str, folder: Path, positions: int = 700, **changes: Any) -> Any:
    """A model with random weights, saved in `folder`, with long positions."""
    torch.manual_seed(11)
    row = ROWS[family]
    kind = row.classes.get("generator", Gemma3ForCausalLM)
    model = kind(row.config(max_position_embeddings=positions, **changes)).eval()
    randomize(model)
    model.save_pretrained(folder)
    return model


def load(runtime: TorchRuntime, folder: Path, family: str = "llama", **changes: Any) -> None:
    fields: dict[str, Any] = {
        "model": "m",
        "path": str(folder),
        "family": family,
        "heads": {"generate": {"head": "generate"}},
        "max_tokens": 700,
        "sequences": 3,
    }
    runtime.load(Load(**(fields | changes)))


def asked(batch: int, prompt: list[int], new: int, model: str = "m", **sampling: Any) -> Generate:
    chosen = Sampling(new, **({"temperature": 0.0} | sampling))
    return Generate(batch, model, to_wire(np.array(prompt, np.int32)), chosen)


def generated(runtime: TorchRuntime, *sequences: Generate) -> dict[int, Text]:
    """All of these at once, to their ends."""
    for sequence in sequences:
        runtime.begin(sequence)
    return finished(runtime, [sequence.batch for sequence in sequences])


def finished(runtime: TorchRuntime, batches: list[int]) -> dict[int, Text]:
    chunks: dict[int, list[Chunk]] = {batch: [] for batch in batches}
    over: dict[int, Generated | Failed] = {}
    while over.keys() != chunks.keys():
        for message in runtime.step():
            assert message.batch is not None
            if isinstance(message, Chunk):
                chunks[message.batch].append(message)
            else:
                over[message.batch] = message
    return {batch: Text(tokens_of(of), over[batch], of) for batch, of in chunks.items()}


def tokens_of(chunks: list[Chunk]) -> list[int]:
    return [token for chunk in chunks for token in from_wire(chunk.tokens).tolist()]


def prompts(lengths: list[int], seed: int = 3) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(IDS.start, IDS.stop, length).tolist() for length in lengths]


def greedy(model: Any, prompt: list[int], new: int, **options: Any) -> list[int]:
    """What transformers makes of a prompt, by itself."""
    ids = torch.tensor([prompt])
    made = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=new,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        **options,
    )
    tokens: list[int] = made[0, len(prompt) :].tolist()
    return tokens


def logits(model: Any, tokens: list[int]) -> NDArray[np.float32]:
    """Of what follows each of these, [tokens, vocabulary]."""
    with torch.inference_mode():
        return np.asarray(model(torch.tensor([tokens])).logits[0].float().numpy(), np.float32)
