"""Who is let in where texts of other lengths were generated before, through a whole `shoal serve`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from shoal.bench.serving import Serving
from tests.worker.text.chats import of_bytes

#: Four at once; the texts of a prompt without the id that ends one are as long as they may be.
CARD = """\
name: echo
source: {{dir: {folder}}}
family: fake
tasks: {{generate: {{stop: [1], temperature: 0.0}}}}
max_tokens: 512
profiles:
  default:
    runtime: fake
    sequences: 4
    options: {{new_token_s: 0.001, token_s: 0.0}}
    cost: {{base_s: 0.0, token_s: 0.0, new_token_s: 0.001}}
"""
#: 0.1 and 0.008 seconds of the device.
LONG, SHORT = 100, 8
#: Less than the queue's two full batches, which are let in in any case: eight texts as long as is expected, and
#: the longs are no longer.
MAX_QUEUE_S = 0.5
BURST = 48


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("echo")
    of_bytes().save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text('{"bos_token_id": 0, "eos_token_id": 1}')
    cards = {"echo": CARD.format(folder=folder)}
    with Serving(["echo"], cards=cards, max_queue_s=MAX_QUEUE_S) as running:
        yield running


def burst(serving: Serving, texts: int, most: int, at_once: int) -> Counter[int]:
    """How many requests of a text each had which status."""

    def one(_: int) -> int:
        body = {"items": ["the quick brown fox"], "params": {"max_tokens": most}}
        return client.post(f"{serving.url}/v1/generate/echo", json=body).status_code

    limits = httpx.Limits(max_connections=at_once)
    with httpx.Client(timeout=60, limits=limits) as client, ThreadPoolExecutor(at_once) as threads:
        return Counter(threads.map(one, range(texts)))


def test_short_texts_after_long_ones_are_let_in_and_as_many_long_ones_are_not(
    serving: Serving,
) -> None:
    assert burst(serving, 50, LONG, at_once=4) == {200: 50}
    assert burst(serving, BURST, SHORT, at_once=BURST) == {200: BURST}
    told = burst(serving, 2 * BURST, LONG, at_once=2 * BURST)
    assert told.keys() == {200, 429}
    assert told[200] >= 8
