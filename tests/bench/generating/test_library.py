"""What transformers' own `generate` says of texts of mixed lengths, and when."""

from __future__ import annotations

from pathlib import Path

from shoal.bench.generating.library import Turn, library
from shoal.bench.generating.streams import Asked
from tests.runtimes.torch.generating import texts


def test_transformers_has_the_tokens_of_each_text_and_their_times(tmp_path: Path) -> None:
    """In batches of two: the third waits for the longest of those before it."""
    model = texts.make("llama", tmp_path)
    prompts, news = texts.prompts([5, 20, 9]), [12, 4, 6]
    asked = [Asked(prompt, new) for prompt, new in zip(prompts, news, strict=True)]
    with library("transformers", tmp_path, 2, {"OMP_NUM_THREADS": "1"}) as helper:
        found = helper.ask(Turn(asked)).streams
    for stream, prompt, new in zip(found, prompts, news, strict=True):
        assert stream.ids == texts.greedy(model, prompt, new)
        assert len(stream.tokens_s) == new
        assert stream.tokens_s == sorted(stream.tokens_s)
    assert found[1].tokens_s == found[0].tokens_s[:4]
    assert found[2].tokens_s[0] > found[0].tokens_s[-1]
