"""Through the API, is everything as good as the reference libraries make it?

Decides which models do which task on which texts, and how far apart both may be. Both sides get the
same texts and begin at the same time, each with its own threads. Of drawn receipts it is known what
stands on them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from shoal.bench import eight_bits, report
from shoal.bench.benchmark import Tell, option
from shoal.bench.failure import BenchFailed
from shoal.bench.quality import metrics, results
from shoal.bench.quality.asked import (
    Answer,
    Ask,
    AskOurs,
    Find,
    Hear,
    Question,
    Rank,
    Read,
    Search,
)
from shoal.bench.quality.handbook import ENGLISH, GERMAN, Section, handbook, spread
from shoal.bench.quality.metrics import Scores
from shoal.bench.quality.pieces import Place, apart, parts_words, told, whole
from shoal.bench.quality.receipts import Receipt, receipts
from shoal.bench.quality.reference import reference
from shoal.bench.quality.results import Row
from shoal.bench.quality.sentences import LANGUAGES, sentences
from shoal.bench.quality.service import service
from shoal.bench.quality.speech import Clip, clips
from shoal.bench.serving import Serving
from shoal.catalog.parse import to_yaml
from shoal.catalog.resolve import Catalog
from shoal.client import Client

#: How far apart nDCG@10 may be: less than one query of 259 whose document falls from the first place
#: to the third.
NDCG_BOUND = 0.002
#: How many documents a reranker gets.
_CANDIDATES = 10
#: Some seconds a request on one slow core; a model is read first.
_TIMEOUT_S = 300.0

_FIRST_STAGE = "all-MiniLM-L6-v2"
_RERANKER = "ms-marco-MiniLM-L-12-v2"
_ENTITIES = "rampart-pii"
_SPEECH = "whisper-tiny.en"
_PICTURES = "pp-ocrv6-small"


class Retrieval(msgspec.Struct, frozen=True):
    """A model that finds sections by their titles."""

    model: str
    output: Literal["dense", "sparse", "multivector"]
    language: str = ENGLISH


RETRIEVALS = (
    Retrieval(_FIRST_STAGE, "dense"),
    Retrieval("bge-small-en-v1.5", "dense"),
    Retrieval("multilingual-e5-small", "dense"),
    Retrieval("multilingual-e5-small", "dense", GERMAN),
    Retrieval("splade-tiny", "sparse"),
    Retrieval("answerai-colbert-small-v1-backbone", "multivector"),
)
MODELS = (*dict.fromkeys(one.model for one in RETRIEVALS), _RERANKER, _ENTITIES, _SPEECH, _PICTURES)


class Plan(msgspec.Struct, frozen=True):
    """How much to compare."""

    sections: Annotated[int, option("Sections of the handbook, in each language")] = 259
    reranked: Annotated[int, option("Titles whose ten best sections are ranked again")] = 87
    sentences: Annotated[int, option("Sentences with personal data, in each language")] = 48
    clips: Annotated[int, option("Clips of speech, at most 10")] = 10
    receipts: Annotated[int, option("Drawn receipts, in German and English by turns")] = 16
    threads: Annotated[int, option("Compute threads of either side")] = 1
    profile: Annotated[str, option("Profile of Shoal's models; else the usual one")] = ""
    models: Annotated[tuple[str, ...], option("Which models; else all")] = ()


QUICK = Plan(sections=24, reranked=6, sentences=16, clips=3, receipts=2)


class Result(results.Result, frozen=True):
    plan: Plan


def measure(plan: Plan, tell: Tell) -> Result:
    """Every task in turn.

    In 8 bits (`--profile onnx-int8`) those without such a profile are measured too.

    Raises:
        BenchFailed: no model of these names is compared, the data or a library cannot be had, or an item
            was not answered.
        SourceError: a model cannot be fetched.
        Unavailable: the server did not start.
    """
    if strange := {*plan.models} - {*MODELS}:
        raise BenchFailed(f"{min(strange)} is not compared; these are: {', '.join(MODELS)}")
    models = plan.models or MODELS
    served = dict.fromkeys([*models, _FIRST_STAGE] if _RERANKER in models else models)
    cards = {}
    if plan.profile == eight_bits.PROFILE:
        catalog = Catalog.load()
        cards = {name: to_yaml(eight_bits.in_8_bits(catalog.card(name))) for name in served}
    tell("fetching the handbook and speech, drawing receipts")
    asked = _Asked(handbook(plan.sections), clips(plan.clips), receipts(plan.receipts))
    profile: dict[str, Any] = {"profile": plan.profile} if plan.profile else {}
    tell("starting shoal serve and the libraries")
    with (
        reference(plan.threads) as libraries,
        Serving(
            [*served],
            cards=cards,
            threads=plan.threads,
            max_queue_s=_TIMEOUT_S,  # on a busy machine a book is more than the usual limit
            **profile,
        ) as serving,
        Client(serving.url, timeout_s=_TIMEOUT_S) as client,
    ):
        both = _Both(service(client), libraries.ask, tell)
        rows = []
        for row in _rows(both, plan, models, asked):
            tell(f"{row.measure} of {row.model}: {row.ours:.4f}, reference {row.theirs:.4f}")
            rows.append(row)
    packages = ["torch", "transformers", "sentence-transformers"]
    return Result(report.this_machine(packages), rows, plan)


class _Asked(msgspec.Struct, frozen=True):
    """Sections by language, clips, and pictures."""

    book: dict[str, list[Section]]
    speech: list[Clip]
    receipts: list[Receipt]


def _rows(both: _Both, plan: Plan, models: Container[str], asked: _Asked) -> Iterator[Row]:
    reranked = plan.reranked if _RERANKER in models else 0
    yield from _searched(both, asked.book, reranked, models)
    if _ENTITIES in models:
        for language in LANGUAGES:
            yield from _found(both, language, plan.sentences)
    if _SPEECH in models:
        said, wavs = [clip.said for clip in asked.speech], [clip.wav for clip in asked.speech]
        yield from _heard(both, said, wavs)
    if _PICTURES in models:
        yield _read(both, asked.receipts)


class _Both:
    """Both sides, asked at the same time."""

    def __init__(self, ours: AskOurs, theirs: Ask, tell: Tell) -> None:
        self._ours, self._theirs = ours, theirs
        self._tell = tell

    def alone(self, question: Read) -> Answer:
        """Ours, where the right answer is known."""
        self._tell(f"read: {question.model}")
        return self._ours(question)

    def ask(self, ours: Question, theirs: Question | None = None) -> tuple[Answer, Answer]:
        """Both answers; `theirs`: where the libraries are asked something else."""
        self._tell(f"{type(ours).__name__.lower()}: {ours.model}")
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(self._ours, ours)
            return_ = self._theirs(theirs or ours)
            return asked.result(), return_


def _searched(
    both: _Both, book: dict[str, list[Section]], reranked: int, models: Container[str]
) -> Iterator[Row]:
    for one in RETRIEVALS:
        again = reranked if one.model == _FIRST_STAGE else 0
        if one.model not in models and not again:
            continue
        titles = [section.title for section in book[one.language]]
        bodies = [section.body for section in book[one.language]]
        answers = both.ask(Search(one.model, one.output, titles, bodies))
        scores = [answer.matrix for answer in answers]
        texts = f"{len(titles)} sections, {one.language[:2]}"
        row = _ndcg(f"nDCG@10, {one.output}", one.model, texts, scores, range(len(titles)))
        yield msgspec.structs.replace(row, scores=float(np.abs(scores[0] - scores[1]).max()))
        if again:
            yield _reranked(both, titles, bodies, scores, again)


def _reranked(
    both: _Both, titles: list[str], bodies: list[str], scores: list[Scores], count: int
) -> Row:
    """Each side ranks the best of its own first stage again."""
    right = spread(range(len(titles)), count)
    chosen = [metrics.best(first[right], _CANDIDATES) for first in scores]
    queries = [titles[place] for place in right]
    questions = [
        Rank(_RERANKER, queries, [[bodies[place] for place in row] for row in places])
        for places in chosen
    ]
    answers = both.ask(*questions)
    again = []
    for answer, places in zip(answers, chosen, strict=True):
        whole_ = np.full((len(right), len(bodies)), -np.inf, np.float32)
        np.put_along_axis(whole_, places, answer.matrix, axis=1)
        again.append(whole_)
    texts = f"{len(right)} titles, {_CANDIDATES} of {_FIRST_STAGE}"
    return _ndcg("nDCG@10, reranked", _RERANKER, texts, again, right)


def _ndcg(measure_: str, model: str, texts: str, scores: list[Scores], right: Sequence[int]) -> Row:
    ours, theirs = (metrics.ndcg(one, right) for one in scores)
    return Row(measure_, model, texts, ours, theirs, abs(ours - theirs), NDCG_BOUND)


def _found(both: _Both, language: str, count: int) -> Iterator[Row]:
    """As `simple` has them; where that parts a word between labels, as `average` has them."""
    texts = sentences(language, count)
    sides = _places(both, Find(_ENTITIES, texts))
    parted = [n for n, places in enumerate(sides[1]) if parts_words(texts[n], places)]
    kept = [n for n in range(len(texts)) if n not in parted]
    yield _entities("simple", language, *([side[n] for n in kept] for side in sides))
    if parted:
        asked = Find(_ENTITIES, [texts[n] for n in parted], "average")
        yield _entities("average", language, *_places(both, asked))


def _places(both: _Both, asked: Find) -> tuple[list[list[Place]], list[list[Place]]]:
    """Of each text ours as they are, and the library's pieces put together."""
    ours, theirs = both.ask(asked)
    pairs = zip(asked.texts, theirs.entities, strict=True)
    return [*map(told, ours.entities)], [whole(text, found) for text, found in pairs]


def _entities(
    aggregation: str, language: str, ours: list[list[Place]], theirs: list[list[Place]]
) -> Row:
    """Counts of entities; those that either side alone has are apart."""
    return Row(
        f"entities, {aggregation}",
        _ENTITIES,
        f"{len(ours)} sentences, {language}",
        ours=sum(map(len, ours)),
        theirs=sum(map(len, theirs)),
        difference=sum(map(apart, ours, theirs)),
        bound=0,
    )


def _heard(both: _Both, said: list[str], wavs: list[bytes]) -> Iterator[Row]:
    ours, theirs = (answer.texts for answer in both.ask(Hear(_SPEECH, wavs)))
    texts = f"{len(wavs)} clips, en"
    rates = [metrics.word_error_rate(said, heard) for heard in (ours, theirs)]
    apart_ = abs(rates[0] - rates[1])
    yield Row("word error rate", _SPEECH, texts, rates[0], rates[1], apart_, 0)
    same = float(sum(one == other for one, other in zip(ours, theirs, strict=True)))
    yield Row("equal transcripts", _SPEECH, texts, same, float(len(wavs)), len(wavs) - same, 0)


def _read(both: _Both, drawn: list[Receipt]) -> Row:
    """A receipt is read exactly, or wrong: characters, order and lines."""
    texts = both.alone(Read(_PICTURES, [receipt.png for receipt in drawn])).texts
    same = float(sum(text == one.text for text, one in zip(texts, drawn, strict=True)))
    on = f"{len(drawn)} receipts, de and en"
    return Row("read exactly", _PICTURES, on, same, float(len(drawn)), len(drawn) - same, 0)
