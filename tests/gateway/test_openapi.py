from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shoal.gateway.openapi import document
from shoal.gateway.routes import routes
from tests.gateway.conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")


def _references(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*map(_references, node.values()))
    if isinstance(node, list):
        return set().union(*map(_references, node))
    return set()


async def test_every_route_is_described_with_its_methods(gateway: Served) -> None:
    paths = document(needs_key=False)["paths"]
    for route in routes(gateway.app.gateway):
        if route.path in ("/", "/openapi.json"):
            continue
        assert set(paths[route.path]) == {method.lower() for method in route.handlers}


async def test_references_resolve_and_the_document_is_served(gateway: Served) -> None:
    served = (await gateway.http.get("/openapi.json")).json()
    assert served == msgspec.json.decode(msgspec.json.encode(document(needs_key=False)))
    schemas = served["components"]["schemas"]
    for reference in _references(served):
        assert reference.removeprefix("#/components/schemas/") in schemas
    assert set(schemas["EncodeBody"]["properties"]) == {"items", "params"}
    assert schemas["EncodeOptions"]["additionalProperties"] is False


async def test_routes_that_stream_say_so() -> None:
    paths = document(needs_key=False)["paths"]
    for path, methods in paths.items():
        for method in methods.values():
            content = method["responses"]["200"].get("content", {})
            streams = "generate" in path or "completions" in path or "responses" in path
            assert ("text/event-stream" in content) is streams


async def test_a_key_is_described_where_it_is_needed() -> None:
    assert document(needs_key=True)["security"] == [{"key": []}]
