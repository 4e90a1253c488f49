"""Tiny generators as transformers saves them, and sequences as the worker sends them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import Gemma3ForCausalLM, T5Config, T5ForConditionalGeneration

from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.socket import Chunk, Failed, Generate, Generated, Load, Sampling
from tests.runtimes.torch.families.row import randomize
from tests.runtimes.torch.families.rows import ROWS
from tests.runtimes.torch.families.t5_row import T5_SHAPE

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


#: Changes to T5's config; the reference ties logits to words unless it is made so.
T5_KINDS: dict[str, dict[str, Any]] = {
    "original": {},
    "original, own logits": {},
    "gated": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "fewer layers": {"num_decoder_layers": 1},
}


def make_t5(folder: Path, kind: str, positions: int = 700, **changes: Any) -> Any:
    """A T5 with random weights; the gated one and that of its own logits have a table for these.

    Its words are small beside what its layers add, or each token would be followed by itself.
    """
    torch.manual_seed(11)
    said = {"n_positions": positions, "decoder_start_token_id": 0} | T5_KINDS[kind] | changes
    model: Any = T5ForConditionalGeneration(T5Config(**T5_SHAPE | said))
    model.train(False)
    if kind in ("original, own logits", "gated"):
        model.lm_head.weight = torch.nn.Parameter(0.3 * torch.randn(101, T5_SHAPE["d_model"]))
    model.shared.weight.data.mul_(0.1)
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
    ids, of = torch.tensor([prompt]), model.config
    # Its store of the decoder's keys has as many layers as the encoder.
    kept = not of.is_encoder_decoder or of.num_decoder_layers == of.num_layers
    made = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=new,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        use_cache=kept,
        **options,
    )
    tokens: list[int] = made[0, 1 if of.is_encoder_decoder else len(prompt) :].tolist()
    return tokens


def logits(model: Any, tokens: list[int]) -> NDArray[np.float32]:
    """Of what follows each of these, [tokens, vocabulary]."""
    with torch.inference_mode():
        return np.asarray(model(torch.tensor([tokens])).logits[0].float().numpy(), np.float32)
