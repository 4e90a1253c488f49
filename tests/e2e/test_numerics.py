"""Vectors through the whole path, with the profile this machine gets, against sentence-transformers."""

import random
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

from shoal import Client
from shoal.bench import texts
from shoal.bench.serving import Serving

MODEL = "all-MiniLM-L6-v2"
ODD = [
    "",
    " ",
    "a",
    "Straße, Äpfel und Öl",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "\U0001f41f" * 40,
    "e" + "\u0301" * 200,
    "word " * 600,
    "x" * 5000,
    "nul \0 inside",
]


def test_cosines_to_sentence_transformers(stack: Serving, folder: Path) -> None:
    rng = random.Random(3)
    given = [texts.text(rng, texts.mixed_length(rng)) for _ in range(200)]
    given += [texts.text(rng, texts.short_length(rng)) for _ in range(60)]
    given += ODD
    reference = SentenceTransformer(str(folder), device="cpu").encode(given)
    with Client(stack.url, timeout_s=300) as client:
        together = client.encode(MODEL, given)
        alone = np.stack([client.encode(MODEL, text) for text in given[-30:]])
    wanted = reference / np.linalg.norm(reference, axis=1, keepdims=True)
    assert (together * wanted).sum(axis=1).min() >= 0.9999
    assert (alone * wanted[-30:]).sum(axis=1).min() >= 0.9999
