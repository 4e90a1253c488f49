"""Texts through a whole `shoal serve` with the fake runtime, which repeats its prompt or draws of it."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
from typer.testing import CliRunner

import shoal
from shoal.bench.processes import by_role
from shoal.bench.serving import Serving
from shoal.cli.main import app
from shoal.errors import TooManyTokens
from tests.worker.text.chats import QWEN, of_bytes

CARD = """\
name: echo
source: {{dir: {folder}}}
family: fake
tasks: {{generate: {{stop: [1], temperature: 1.0}}}}
max_tokens: 512
profiles: {{default: {{runtime: fake, sequences: 4, options: {{new_token_s: 0.004, token_s: 0.0001}}}}}}
"""
PROMPT = "the quick brown fox jumps over the lazy dog"
HELLO = [{"role": "user", "content": "Hello, who is there?"}]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("echo")
    of_bytes().save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text('{"bos_token_id": 0, "eos_token_id": 1}')
    (folder / "chat_template.jinja").write_text(QWEN)
    with Serving(["echo"], cards={"echo": CARD.format(folder=folder)}, ack_wait_s=2) as running:
        yield running


@pytest.fixture
def client(serving: Serving) -> Iterator[shoal.Client]:
    with shoal.Client(serving.url) as made:
        yield made


@pytest.fixture
def official(serving: Serving) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{serving.url}/v1", api_key="any", max_retries=0) as made:
        yield made


def test_a_stream_is_the_same_text_in_pieces(client: shoal.Client) -> None:
    (whole,) = client.generate("echo", PROMPT, max_tokens=60, seed=5)
    with client.stream("echo", PROMPT, max_tokens=60, seed=5) as stream:
        pieces = list(stream)
    assert len(pieces) > 5
    assert stream.generation == whole
    assert (whole.finish, whole.new_tokens) == ("length", 60)
    assert client.generate("echo", PROMPT, max_tokens=60, seed=6)[0].text != whole.text


def test_likelihoods_come_with_their_pieces(client: shoal.Client) -> None:
    options = {"max_tokens": 20, "temperature": 0, "logprobs": 2}
    (whole,) = client.generate("echo", PROMPT, **options)  # type: ignore[arg-type]
    assert whole.logprobs is not None
    assert "".join(token.text for token in whole.logprobs[1:]) == whole.text  # after the <s>
    assert {len(token.top) for token in whole.logprobs} == {2}
    with client.stream("echo", PROMPT, **options) as stream:  # type: ignore[arg-type]
        list(stream)
    assert stream.generation == whole


def test_conversations_and_texts_that_end_them(official: openai.OpenAI) -> None:
    options = {"model": "echo", "messages": HELLO, "temperature": 0, "max_tokens": 200}
    answer = official.chat.completions.create(**options, stop=["there"])  # type: ignore[call-overload]
    (choice,) = answer.choices
    assert choice.finish_reason == "stop"
    assert choice.message.content.endswith("Hello, who is ")
    stream = official.chat.completions.create(**options, stop=["there"], stream=True)  # type: ignore[call-overload]
    told = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert told == choice.message.content


def test_several_texts_of_one_prompt(official: openai.OpenAI) -> None:
    answer = official.completions.create(model="echo", prompt=PROMPT, n=6, seed=3, max_tokens=30)
    texts = [choice.text for choice in answer.choices]
    assert len(set(texts)) == 6
    fifth = official.completions.create(model="echo", prompt=PROMPT, seed=7, max_tokens=30)
    assert fifth.choices[0].text == texts[4]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 180
    assert answer.usage.prompt_tokens == 1 + len(PROMPT)


def test_token_ids_are_gone_on_with(official: openai.OpenAI, client: shoal.Client) -> None:
    (text,) = client.generate("echo", [[40, 41, 42]], max_tokens=6, temperature=0)
    answer = official.completions.create(
        model="echo", prompt=[40, 41, 42], max_tokens=6, temperature=0
    )
    assert answer.choices[0].text == text.text != ""


def test_responses(official: openai.OpenAI) -> None:
    with official.responses.stream(
        model="echo", input="Hello", temperature=0, max_output_tokens=12
    ) as stream:
        kinds = [event.type for event in stream]
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.incomplete"
    assert kinds.count("response.output_text.delta") > 1


def test_many_streams_at_once_and_all_of_them_whole(client: shoal.Client) -> None:
    def one(seed: int) -> bool:
        with client.stream("echo", PROMPT, max_tokens=30, seed=seed) as stream:
            told = "".join(stream)
        return told == client.generate("echo", PROMPT, max_tokens=30, seed=seed)[0].text

    with ThreadPoolExecutor(12) as threads:
        assert all(threads.map(one, range(24)))


def test_as_many_as_there_are_places_are_written_side_by_side(client: shoal.Client) -> None:
    """Also once it is known that each takes longer than a batch of vectors may."""
    client.generate("echo", [PROMPT] * 4, max_tokens=150)

    def one(seed: int) -> tuple[float, float]:
        with client.stream("echo", PROMPT, max_tokens=150, seed=seed) as stream:
            pieces = iter(stream)
            next(pieces)
            first = time.monotonic()
            list(pieces)
        return first, time.monotonic()

    with ThreadPoolExecutor(4) as threads:
        begun, ended = zip(*threads.map(one, range(4)), strict=True)
    assert max(begun) < min(ended)


def test_a_runtime_that_dies_in_the_middle_costs_no_text(
    serving: Serving, client: shoal.Client
) -> None:
    options = {"max_tokens": 150, "seed": 11}
    (whole,) = client.generate("echo", PROMPT, **options)  # type: ignore[arg-type]
    with client.stream("echo", PROMPT, **options) as stream:  # type: ignore[arg-type]
        pieces = iter(stream)
        told = "".join(next(pieces) for _ in range(10))
        (runtime,) = by_role(serving.pid)["runtime"]
        os.kill(runtime, signal.SIGKILL)
        told += "".join(pieces)
    assert told == whole.text


def test_who_goes_away_gives_its_place_back(serving: Serving, client: shoal.Client) -> None:
    """There are four places: were one lost each time, nobody would be answered at last."""
    for _ in range(12):
        with client.stream("echo", PROMPT, max_tokens=400) as stream:
            next(iter(stream))
    (text,) = client.generate("echo", PROMPT, max_tokens=2)
    assert text.new_tokens == 2


async def test_a_hundred_that_go_away_leave_nothing(serving: Serving) -> None:
    chances = random.Random(4)

    async def one(client: shoal.AsyncClient, reads: int) -> None:
        async with await client.stream("echo", PROMPT, max_tokens=200) as stream:
            told = aiter(stream)
            for _ in range(reads):
                await anext(told)

    async with shoal.AsyncClient(serving.url) as client:
        await asyncio.gather(*(one(client, chances.randrange(12)) for _ in range(100)))
        async with asyncio.timeout(30):
            while outstanding(serving) or serving.worker_counters()["shoal_worker_units_held"]:
                await asyncio.sleep(0.05)
        (text,) = await client.generate("echo", PROMPT, max_tokens=2)
    assert text.new_tokens == 2


def outstanding(serving: Serving) -> float:
    lines = httpx.get(f"{serving.url}/metrics", timeout=10).text.splitlines()
    name = "shoal_gateway_outstanding_units "
    return next(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def test_errors_have_their_own_status_in_a_stream_too(serving: Serving) -> None:
    body = {"model": "echo", "messages": [{"role": "user", "content": "long " * 200}]}
    for stream in (False, True):
        response = httpx.post(
            f"{serving.url}/v1/chat/completions", json={**body, "stream": stream}, timeout=20
        )
        assert response.status_code == 400
        assert response.json()["error"]["code"] == TooManyTokens.code


def test_the_command(serving: Serving) -> None:
    arguments = ["generate", "echo", PROMPT, "-n", "9", "--temperature", "0", "--url", serving.url]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "the quic\n"
