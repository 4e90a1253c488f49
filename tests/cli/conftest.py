from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.scripted import ScriptedGateway


@pytest.fixture(scope="session")
def running_gateway() -> Iterator[ScriptedGateway]:
    with ScriptedGateway() as gateway:
        yield gateway


@pytest.fixture
def gateway(running_gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> ScriptedGateway:
    """The one that commands ask."""
    running_gateway.reset()
    monkeypatch.setenv("SHOAL_URL", running_gateway.url)
    monkeypatch.delenv("SHOAL_API_KEY", raising=False)
    return running_gateway
