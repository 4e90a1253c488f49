"""A real broker, a scripted worker on it, and a gateway on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio

from shoal.broker.server import BrokerServer
from shoal.catalog.card import Card, Source
from shoal.catalog.resolve import Catalog
from shoal.catalog.tasks import (
    Dense,
    EncodeTask,
    ExtractTask,
    GenerateTask,
    Multivector,
    ScoreTask,
    Sparse,
    Tasks,
)
from shoal.gateway.app import App
from shoal.gateway.main import Server, base_url, bind
from shoal.gateway.service import Gateway
from shoal.settings import CommonSettings, GatewaySettings
from tests.gateway.scripted import DIM, ScriptedWorker

MODEL = "org/tiny.model"
ALIAS = "tiny"


def card(name: str = MODEL, *, aliases: Sequence[str] = (ALIAS,), **tasks: Any) -> Card:
    prompts = {"query": "query: ", "passage": "passage: "}
    given = Tasks(**tasks) if tasks else Tasks(EncodeTask(dense=Dense(DIM), prompts=prompts))
    return Card(name, Source(dir="/nowhere"), "bert", given, 256, aliases=list(aliases))


def cards() -> list[Card]:
    """A model for each kind of answer."""
    every = EncodeTask(Dense(DIM), Sparse(), Multivector(4))
    return [
        card(),
        card("every-vector", aliases=(), encode=every),
        card("terms", aliases=(), encode=EncodeTask(sparse=Sparse())),
        card(
            "instructed",
            aliases=(),
            encode=EncodeTask(dense=Dense(DIM), instruction_prompt="Instruct: {instruction} "),
            score=ScoreTask(
                "yes-no", template="{instruction} {query} {document}", default_instruction="find"
            ),
        ),
        card("reranker", aliases=(), score=ScoreTask()),
        card("late", aliases=(), score=ScoreTask("maxsim")),
        card("logits", aliases=(), score=ScoreTask(activation="identity")),
        card("ner", aliases=(), extract=ExtractTask("token-labels")),
        card("classifier", aliases=(), extract=ExtractTask("sequence-labels", harmless=["safe"])),
        card("zero-shot", aliases=(), extract=ExtractTask("nli")),
        card("storyteller", aliases=(), generate=GenerateTask()),
        card("agent", aliases=(), generate=GenerateTask(tools="hermes")),
        msgspec.structs.replace(
            card("seer", aliases=(), generate=GenerateTask()), inputs=["text", "image"]
        ),
        msgspec.structs.replace(
            card("transcriber", aliases=(), extract=ExtractTask("transcript")), inputs=["audio"]
        ),
    ]


async def until(condition: Callable[[], Any], within_s: float = 30.0) -> None:
    """Wait for `condition`, looking often."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        await asyncio.sleep(0.005)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def broker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[BrokerServer]:
    store = tmp_path_factory.mktemp("gateway") / "broker"
    server = BrokerServer(CommonSettings(store_dir=str(store)))
    await server.start()
    yield server
    await server.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running_worker(broker: BrokerServer) -> AsyncIterator[ScriptedWorker]:
    models = [card.name for card in cards()]
    async with ScriptedWorker(CommonSettings(broker_url=broker.url), *models) as scripted:
        yield scripted


@pytest_asyncio.fixture(loop_scope="session")
async def worker(running_worker: ScriptedWorker) -> ScriptedWorker:
    await running_worker.purge()
    running_worker.reset()
    return running_worker


class Served:
    """A gateway that listens, and a client of it."""

    def __init__(self, app: App, server: Server, url: str) -> None:
        self.app = app
        self.server = server
        self.url = url
        self.http = httpx.AsyncClient(base_url=url, timeout=20.0)

    async def encode(
        self, items: list[Any], /, headers: Any = None, **params: Any
    ) -> httpx.Response:
        body = {"items": items, "params": params}
        return await self.http.post(f"/v1/encode/{MODEL}", json=body, headers=headers)

    async def embeddings(self, given: Any, **fields: Any) -> httpx.Response:
        return await self.http.post(
            "/v1/embeddings", json={"model": ALIAS, "input": given, **fields}
        )

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        return await self.http.post(path, json=body, headers=headers)

    async def metric(self, name: str) -> float:
        lines = (await self.http.get("/metrics")).text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


@contextlib.asynccontextmanager
async def serving(broker: BrokerServer, **changes: Any) -> AsyncIterator[Served]:
    """A gateway with these settings on a free port."""
    settings = GatewaySettings(broker_url=broker.url, port=0)
    settings = msgspec.structs.replace(settings, **changes)
    catalog = Catalog(cards())
    listener = bind(settings)
    app = App(settings, lambda: Gateway.open(settings, catalog))
    ready = asyncio.Event()
    server = Server(app, settings, listener, lambda url: ready.set())
    running = asyncio.create_task(server.serve(sockets=[listener]))
    await asyncio.wait_for(ready.wait(), 30)
    served = Served(app, server, base_url(listener) if listener.fileno() >= 0 else "")
    try:
        yield served
    finally:
        await served.http.aclose()
        server.should_exit = True
        await asyncio.wait_for(running, 30)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running_gateway(
    broker: BrokerServer, running_worker: ScriptedWorker
) -> AsyncIterator[Served]:
    async with serving(broker) as served:
        await until(lambda: not served.app.gateway.missing())
        yield served


@pytest_asyncio.fixture(loop_scope="session")
async def gateway(running_gateway: Served, worker: ScriptedWorker) -> Served:
    await until(lambda: not running_gateway.app.gateway.missing())
    return running_gateway
