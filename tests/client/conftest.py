from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import shoal
from tests.client.scripted import ScriptedGateway

#: Performs one call of a client: ``ask(lambda client: client.encode(...), timeout_s=1)``.
Ask = Callable[..., Any]


@pytest.fixture(scope="session")
def running_gateway() -> Iterator[ScriptedGateway]:
    with ScriptedGateway() as gateway:
        yield gateway


@pytest.fixture
def gateway(running_gateway: ScriptedGateway) -> ScriptedGateway:
    running_gateway.reset()
    return running_gateway


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest, gateway: ScriptedGateway) -> Ask:
    """Both clients must pass every test that asks through this."""

    def sync(call: Callable[[Any], Any], base_url: str = gateway.url, **options: Any) -> Any:
        with shoal.Client(base_url, **options) as client:
            return call(client)

    def aio(call: Callable[[Any], Any], base_url: str = gateway.url, **options: Any) -> Any:
        async def perform() -> Any:
            async with shoal.AsyncClient(base_url, **options) as client:
                return await call(client)

        return asyncio.run(perform())

    return sync if request.param == "sync" else aio
