"""How long one word waits behind a request of hundreds of long texts.

Decides when the word is asked and what counts as waiting: `Server-Timing` tells what of an answer's
time went by before its batch began. In a batch the word stands beside long texts, and is answered
with them.
"""

from __future__ import annotations

import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from http.client import HTTPConnection, HTTPException

import msgspec

from shoal.bench.failure import BenchFailed
from shoal.bench.load import Generator, Load, Outcome, encode
from shoal.bench.serving import Serving
from shoal.bench.texts import text

#: Tokens of each long text; the word is first asked so long after them, and again after every pause.
TOKENS, LATER_S, PAUSE_S = 250, 0.5, 0.7
#: Longest wait for the large request, on a machine whose cores are busy.
LARGE_S = 240.0
#: Times that the word is asked alone in a round; their median counts.
_ALONE = 5
_BEFORE = ("queue", "prepare", "wait")


class Word(msgspec.Struct, frozen=True):
    """One answer to the word. `waited_s`: what of it went by before its batch began."""

    seconds: float
    waited_s: float


class Large(msgspec.Struct, frozen=True):
    """One round of the large request.

    Attributes:
        alone_s: what the word's answer takes when nothing else is asked.
        words: its answers while the large request is answered, the first after `LATER_S`.
        batch_s: the mean of the batches that ran meanwhile.
    """

    alone_s: float
    words: list[Word]
    large_s: float
    batch_s: float

    @property
    def batches(self) -> list[float]:
        """How many batches each of the words waited for."""
        return [word.waited_s / self.batch_s for word in self.words]


def large(
    serving: Serving, load: Generator, model: str, texts: int, keys: tuple[str, str]
) -> Large:
    """The word alone, then half a second after the large request and on.

    Args:
        keys: of the large request's tenant and of the word's.

    Raises:
        BenchFailed: something was not answered.
    """
    rng = random.Random(8)
    request = encode(model, [text(rng, TOKENS) for _ in range(texts)], key=keys[0])
    with closing(_Asked(serving, model, keys[1])) as asked:
        alone_s = statistics.median(asked.word().seconds for _ in range(_ALONE))
        before = serving.worker_counters()
        outcome, words = _beside(asked, load, Load([serving.address], [request], 1))
    after = serving.worker_counters()
    if outcome.errors:
        raise BenchFailed(f"the large request was not answered: {outcome.errors}")
    seconds, batches = (
        after[name] - before[name]
        for name in ("shoal_worker_compute_seconds_sum", "shoal_worker_compute_seconds_count")
    )
    return Large(alone_s, words, outcome.seconds, seconds / batches)


def _beside(asked: _Asked, load: Generator, sent: Load) -> tuple[Outcome, list[Word]]:
    """Ask for the word until the large request is answered; what came after that does not count, but for the first."""
    load.give(sent)
    words: list[Word] = []
    with ThreadPoolExecutor(1) as beside:
        loading = beside.submit(load.take)
        wait([loading], LATER_S)
        while not words or not loading.done():
            word = asked.word()
            if not words or not loading.done():
                words.append(word)
            wait([loading], PAUSE_S)
        return loading.result(), words


class _Asked:
    """Who asks for the word, over a connection that stays open."""

    def __init__(self, serving: Serving, model: str, key: str) -> None:
        host, port = serving.address
        self._line = HTTPConnection(host, port, timeout=LARGE_S)
        self._path = f"/v1/encode/{model}"
        self._headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/msgpack",
            "Accept": "application/msgpack",
        }
        self._body = msgspec.msgpack.encode({"items": ["hi"]})

    def word(self) -> Word:
        """Raises `BenchFailed`."""
        began = time.perf_counter()
        try:
            self._line.request("POST", self._path, self._body, self._headers)
            response = self._line.getresponse()
            body = response.read()
        except (OSError, HTTPException) as error:
            raise BenchFailed(f"the word had no answer: {error}") from None
        seconds = time.perf_counter() - began
        if response.status != 200:
            raise BenchFailed(f"the word was answered by {response.status}: {body[:200]!r}")
        return Word(seconds, waited_s(response.getheader("Server-Timing", "")))

    def close(self) -> None:
        self._line.close()


def waited_s(server_timing: str) -> float:
    """Seconds before the batch began, of a header such as ``queue;dur=3.10, wait;dur=0.25``."""
    spent_ms = dict(part.strip().split(";dur=") for part in server_timing.split(",") if part)
    return sum(float(spent_ms[name]) for name in _BEFORE) / 1e3
