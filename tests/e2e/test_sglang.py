"""Texts through a whole `shoal serve` whose runtime starts a server with SGLang's HTTP API and a toy in it."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import shoal
from shoal.bench.serving import Serving
from shoal.errors import InvalidRequest
from tests.runtimes.sglang.running import SCRIPT, servers_of, whole_folder_of
from tests.runtimes.sglang.server import EOS

CARD = """\
name: toy
source: {{dir: {folder}}}
family: llama
tasks: {{generate: {{stop: [1]}}}}
max_tokens: 256
profiles:
  default:
    runtime: sglang
    sequences: 4
    options: {{command: [{python}, {script}, --enable-deterministic-inference, --token-s, "0.01"]}}
"""
PROMPT = "the quick brown fox"
#: Nothing ends it before its most tokens.
ENDLESS = {"bias": {1: -100.0, EOS: -100.0}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_folder_of(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def serving(folder: Path) -> Iterator[Serving]:
    card = CARD.format(folder=folder, python=sys.executable, script=SCRIPT)
    with Serving(["toy"], cards={"toy": card}, ack_wait_s=2) as running:
        yield running
    assert servers_of(folder) == []


@pytest.fixture
def client(serving: Serving) -> Iterator[shoal.Client]:
    with shoal.Client(serving.url) as made:
        yield made


def test_a_stream_is_the_same_text_in_pieces(client: shoal.Client) -> None:
    options = {"max_tokens": 40, "seed": 5, **ENDLESS}
    (whole,) = client.generate("toy", PROMPT, **options)  # type: ignore[arg-type]
    assert whole.new_tokens == 40
    with client.stream("toy", PROMPT, **options) as stream:  # type: ignore[arg-type]
        pieces = list(stream)
    assert "".join(pieces) == whole.text
    assert len(pieces) > 5


def test_a_server_that_dies_in_the_middle_costs_no_text(folder: Path, client: shoal.Client) -> None:
    options = {"max_tokens": 120, "seed": 11, **ENDLESS}
    (whole,) = client.generate("toy", PROMPT, **options)  # type: ignore[arg-type]
    (server,) = servers_of(folder)
    with client.stream("toy", PROMPT, **options) as stream:  # type: ignore[arg-type]
        pieces = iter(stream)
        told = "".join(next(pieces) for _ in range(10))
        os.kill(server, signal.SIGKILL)
        told += "".join(pieces)
    assert told == whole.text
    assert servers_of(folder) != [server]


def test_more_texts_than_there_are_places(client: shoal.Client) -> None:
    def one(seed: int) -> int:
        options = {"max_tokens": 20, "seed": seed, **ENDLESS}
        (text,) = client.generate("toy", PROMPT, **options)  # type: ignore[arg-type]
        return text.new_tokens

    with ThreadPoolExecutor(16) as threads:
        assert [*threads.map(one, range(16))] == [20] * 16


async def test_a_hundred_that_go_away_leave_nothing(serving: Serving) -> None:
    chances = random.Random(4)

    async def one(client: shoal.AsyncClient, reads: int) -> None:
        options = {"max_tokens": 100, "seed": reads, **ENDLESS}
        async with await client.stream("toy", PROMPT, **options) as stream:  # type: ignore[arg-type]
            told = aiter(stream)
            for _ in range(reads):
                await anext(told)

    async with shoal.AsyncClient(serving.url) as client:
        await asyncio.gather(*(one(client, chances.randrange(6)) for _ in range(100)))
        async with asyncio.timeout(60):
            while serving.worker_counters()["shoal_worker_units_held"]:
                await asyncio.sleep(0.05)
        (text,) = await client.generate("toy", PROMPT, max_tokens=2, **ENDLESS)  # type: ignore[arg-type]
    assert text.new_tokens == 2


def test_what_sglang_cannot_do_is_the_callers_to_know(
    serving: Serving, client: shoal.Client
) -> None:
    with pytest.raises(InvalidRequest, match=r"repetition_penalty is 1.5: SGLang counts only"):
        client.generate("toy", PROMPT, repetition_penalty=1.5)
    with pytest.raises(InvalidRequest, match="Lark grammar is kept only by"):
        client.generate("toy", PROMPT, grammar='start: "a"')
    body = {
        "model": "toy",
        "prompt": PROMPT,
        "max_tokens": 4,
        "logit_bias": {"5": 1},
        "logprobs": 1,
    }
    response = httpx.post(f"{serving.url}/v1/completions", json=body, timeout=20)
    assert response.status_code == 400
    assert "logprobs beside logit_bias" in response.text
