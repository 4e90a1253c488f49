"""Folders of tiny models with all that serves them: weights, tokenizer, preprocessor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

from tests.runtimes.torch import media, pages, seeing, speech, towers
from tests.runtimes.torch.card_tokenizers import pali, vbert, vlm

WORDS = ["<start>", *(f"w{n}" for n in range(2, towers.END)), "<end>"]


def tokenizer(folder: Path, words: list[str], around: bool) -> None:
    made = Tokenizer(models.WordLevel({word: n + 1 for n, word in enumerate(words)}, "w2"))
    made.pre_tokenizer = pre_tokenizers.Split(" ", "removed" if around else "merged_with_next")
    if around:
        special = [("<start>", 1), ("<end>", towers.END)]
        made.post_processor = processors.TemplateProcessing("<start> $A <end>", None, special)
    made.save(str(folder / "tokenizer.json"))


def clip(folder: Path) -> Any:
    model = towers.clip(folder)
    tokenizer(folder, WORDS, True)
    return model


def colpali(folder: Path, size: int = 16, dim: int = pages.DIM, most: int = 64) -> Any:
    """Of pages of so many pixels a side; `processor` of what comes back is the reference's own."""
    seen: Any = SiglipImageProcessorPil(
        size={"height": size, "width": size}, image_mean=media.MEAN, image_std=media.STD
    )
    seen.image_seq_length = (size // 4) ** 2
    processor = transformers.ColPaliProcessor(seen, pali())
    words = {"vocab_size": len(processor.tokenizer), "max_position_embeddings": most}
    model = pages.colpali(folder, words, processor.image_token_id, dim, image_size=size)
    (folder / "preprocessor_config.json").unlink()
    processor.save_pretrained(folder)
    model.processor = processor
    return model


def colmodernvbert(folder: Path, most: int = 512) -> Any:
    """Pages of up to four squares a side, of 16 pixels; `processor` as above."""
    seen = Idefics3ImageProcessorPil(
        size={"longest_edge": 64},
        max_image_size={"longest_edge": 16},
        image_mean=media.MEAN,
        image_std=media.STD,
    )
    processor = transformers.ColModernVBertProcessor(seen, vbert(), image_seq_len=4)
    words = {"vocab_size": len(processor.tokenizer), "max_position_embeddings": most}
    model = pages.colmodernvbert(folder, words, processor.image_token_id)
    (folder / "preprocessor_config.json").unlink()
    processor.save_pretrained(folder)
    model.processor = processor
    return model


#: SmolVLM's own.
TEMPLATE = (
    "<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}"
    "{% if message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}{% endif %}"
    "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}"
    "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n"
    "{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)


def smolvlm(folder: Path, most: int = 700) -> Any:
    """Images of up to four squares a side, of 16 pixels; `processor` as above."""
    seen = Idefics3ImageProcessorPil(
        size={"longest_edge": 64},
        max_image_size={"longest_edge": 16},
        image_mean=media.MEAN,
        image_std=media.STD,
    )
    processor = transformers.Idefics3Processor(
        seen, vlm(), image_seq_len=seeing.TOKENS, chat_template=TEMPLATE
    )
    words = {"vocab_size": len(processor.tokenizer), "max_position_embeddings": most}
    model = seeing.make(folder, text=words, image_token_id=processor.image_token_id)
    (folder / "preprocessor_config.json").unlink()
    processor.save_pretrained(folder)
    model.processor = processor
    return model


def whisper(folder: Path, *, several: bool = True, **rules: Any) -> Any:
    """Windows of 0.4 s, as its frames are of 10 ms; words have their space before them."""
    model = speech.save(folder, several=several, **rules)
    said = {"feature_size": 16, "sampling_rate": 1600, "hop_length": 16, "n_fft": 40}
    (folder / "preprocessor_config.json").write_text(json.dumps(said | {"chunk_length": 0.4}))
    tokenizer(folder, [f" w{n}" for n in range(1, 50)], False)
    return model
