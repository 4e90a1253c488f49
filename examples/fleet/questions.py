"""What is asked of which model of a fleet, and what of the answer is shown."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pictures

import shoal
from shoal.client import Encoded, Extracted, Generated, Scored, Sparse

HANDBOOK = [
    "A drill has to be back after three days.",
    "Ladders and tents may be kept for two weeks.",
    "Whoever breaks a tool pays half of its price, but at most thirty euros.",
    "We are open on Tuesdays and Saturdays, from ten to six.",
    "Paint and glue are sold at the counter.",
    "New members show a passport and pay twelve euros a year.",
]
QUESTION = "How long can I borrow a drill?"
FRAGE = "Wann habt ihr geöffnet?"
CALL = Path(__file__).with_name("call.ogg")

#: What was computed, and of it what is shown.
Answer = tuple[Encoded | Scored | Extracted | Generated, str]
Ask = Callable[[shoal.Client, str], Answer]


def passage(client: shoal.Client, model: str, question: str = QUESTION) -> Answer:
    """The passage whose vector is most like the question's."""
    prompts = client.model(model).prompts
    query, document = (name if name in prompts else None for name in ("query", "document"))
    encoded = client.encode_detailed(model, HANDBOOK, prompt=document)
    asked = client.encode(model, question, prompt=query)
    return encoded, HANDBOOK[int((encoded.vectors @ asked).argmax())]


def across_languages(client: shoal.Client, model: str) -> Answer:
    """The same with a German question."""
    return passage(client, model, FRAGE)


def bits(client: shoal.Client, model: str) -> Answer:
    """Of vectors of a bit a value, the one with the fewest other bits than the question's."""
    encoded = client.encode_detailed(model, HANDBOOK, dtype="binary")
    asked = client.encode(model, QUESTION, prompt="query", dtype="binary")
    apart = np.bitwise_count(encoded.vectors ^ asked).sum(1)
    return encoded, f"{encoded.vectors.shape[1]} bytes each: {HANDBOOK[int(apart.argmin())]}"


def paraphrase(client: shoal.Client, model: str) -> Answer:
    """The two that say most nearly the same."""
    said = ["The drill is broken.", "Opening hours, please?", "When do you open?", "I paid twice."]
    encoded = client.encode_detailed(model, said, normalize=True)
    likeness = encoded.vectors @ encoded.vectors.T
    one, other = max(itertools.combinations(range(len(said)), 2), key=lambda pair: likeness[pair])
    return encoded, f"{said[one]} ~ {said[other]} ({likeness[one, other]:.2f})"


def terms(client: shoal.Client, model: str) -> Answer:
    """The passage that shares most weight of terms with the question."""
    encoded = client.encode_detailed(model, [QUESTION, *HANDBOOK])
    asked, *documents = (_weights(row) for row in encoded.outputs["sparse"])
    shared = [sum(asked[t] * found[t] for t in asked.keys() & found.keys()) for found in documents]
    return encoded, f"{len(asked)} terms: {HANDBOOK[int(np.argmax(shared))]}"


def _weights(row: object) -> dict[int, float]:
    assert isinstance(row, Sparse)
    return dict(zip(row.indices.tolist(), row.values.tolist(), strict=True))


def best(client: shoal.Client, model: str) -> Answer:
    """The passage with the highest score."""
    scored = client.score_detailed(model, QUESTION, HANDBOOK)
    first = int(scored.ranked()[0])
    return scored, f"{scored.scores[first]:.1f}: {HANDBOOK[first]}"


def tokens(client: shoal.Client, model: str) -> Answer:
    """A vector for each token, and one that stands for them all."""
    encoded = client.encode_detailed(model, HANDBOOK, outputs=["multivector", "fde"])
    each, one = (np.asarray(encoded.outputs[name][0]) for name in ("multivector", "fde"))
    return (
        encoded,
        f"{each.shape[0]} of {each.shape[1]} for the first passage, or one of {one.size}",
    )


def personal(client: shoal.Client, model: str) -> Answer:
    """Personal data."""
    text = "I am Mary Jones of 12 Mill Lane, Leeds; write to mary.jones@example.com."
    extracted = client.extract_detailed(model, [text])
    found = extracted.found[0].entities or []
    return extracted, ", ".join(f"{entity.text} {entity.label}" for entity in found)


def grammar(client: shoal.Client, model: str) -> Answer:
    """Which words are to be changed, and how."""
    extracted = client.extract_detailed(model, ["He don't knows how to use an drill."])
    found = extracted.found[0].entities or []
    return extracted, ", ".join(f"{entity.text}: {entity.label}" for entity in found)


def label(client: shoal.Client, model: str) -> Answer:
    """What pictures show."""
    drawn = [pictures.traffic_light(), pictures.crossword(), pictures.clock()]
    extracted = client.extract_detailed(model, drawn)
    firsts = [(found.labels or [])[0].label.split(",")[0] for found in extracted.found]
    return extracted, ", ".join(firsts)


def alike(client: shoal.Client, model: str) -> Answer:
    """Which of three pictures is most like a fourth."""
    drawn = {"traffic light": pictures.traffic_light(), "crossword": pictures.crossword()}
    drawn["clock"] = pictures.clock()
    fourth = pictures.traffic_light(top=50, sky="#ffd9a0")
    encoded = client.encode_detailed(model, [fourth, *drawn.values()], normalize=True)
    likeness = encoded.vectors[1:] @ encoded.vectors[0]
    return encoded, f"like the {[*drawn][int(likeness.argmax())]} ({likeness.max():.2f})"


def transcript(client: shoal.Client, model: str) -> Answer:
    """What somebody said."""
    extracted = client.extract_detailed(model, [CALL])
    return extracted, extracted.found[0].text or ""


def read(client: shoal.Client, model: str) -> Answer:
    """What stands on a receipt."""
    extracted = client.extract_detailed(model, [pictures.receipt()])
    return extracted, (extracted.found[0].text or "").replace("\n", " / ")


def reply(client: shoal.Client, model: str) -> Answer:
    """What it says to somebody, always the likeliest token."""
    asked = [{"role": "user", "content": "What is a drill? Answer in one sentence."}]
    said = client.generate_detailed(model, [asked], temperature=0, max_tokens=40)
    return said, said.texts[0].text


def title(client: shoal.Client, model: str) -> Answer:
    """What a program run was about."""
    run = "summarize: edited src/login.py to fix the token refresh bug, ran pytest, 12 passed"
    said = client.generate_detailed(model, [run], temperature=0, max_tokens=40)
    return said, said.texts[0].text


class Question(NamedTuple):
    """`ask` is called with a client and the model."""

    model: str
    task: str
    ask: Ask


QUESTIONS = [
    Question("all-MiniLM-L6-v2", "dense vectors", passage),
    Question("bge-small-en-v1.5", "query prompts", passage),
    Question("multilingual-e5-small", "across languages", across_languages),
    Question("paraphrase-MiniLM-L3-v2", "paraphrases", paraphrase),
    Question("splade-tiny", "sparse vectors", terms),
    Question("answerai-colbert-small-v1-backbone", "token vectors", tokens),
    Question("answerai-colbert-small-v1-backbone", "late interaction", best),
    Question("ms-marco-MiniLM-L-12-v2", "reranking", best),
    Question("rampart-pii", "entities", personal),
    Question("gector-distilbert", "grammar", grammar),
    Question("efficientnet-lite0", "image labels", label),
    Question("efficientnet-lite0", "image vectors", alike),
    Question("pp-ocrv6-small", "text in pictures", read),
    Question("whisper-tiny.en", "transcripts", transcript),
    Question("traceforge-flan-t5-small", "titles", title),
    Question("smollm2-135m-instruct", "chat", reply),
    Question("bge-small-en-v1.5", "binary vectors", bits),
]
