"""Which route an unknown path most likely meant, and that nothing is suggested that is not near."""

from __future__ import annotations

import pytest

from shoal.errors import NotFound
from shoal.gateway.router import Route, Router

PATHS = [
    "/v1/encode/{model}",
    "/v1/embeddings",
    "/v1/moderations",
    "/v1/audio/transcriptions",
    "/v1/rerank",
    "/v2/rerank",
    "/v1/models",
    "/v1/models/{model}",
    "/healthz",
    "/",
    "/rerank",
]
router = Router([Route(path, {}) for path in PATHS])


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("/v1/embedings", "/v1/embeddings"),
        ("/embeddings", "/v1/embeddings"),
        ("/v1/v1/embeddings", "/v1/embeddings"),
        ("/v2/moderation", "/v1/moderations"),
        ("/v1/encode", "/v1/encode/{model}"),
        ("/v1/encodes/org/name", "/v1/encode/{model}"),
        ("/v1/transcriptions", "/v1/audio/transcriptions"),
        ("/v3/rerank", "/v1/rerank"),
        ("/health", "/healthz"),
    ],
)
def test_a_slip_is_told_what_was_meant(asked: str, meant: str) -> None:
    with pytest.raises(NotFound) as error:
        router.find(asked)
    assert error.value.message == f"there is nothing at {asked} (did you mean '{meant}'?)"


@pytest.mark.parametrize(
    "asked", ["/v1/chat/completions", "/v1/images/generations", "/v1/responses", "/docs", "//"]
)
def test_what_is_not_near_anything_is_told_all_that_there_is(asked: str) -> None:
    with pytest.raises(NotFound) as error:
        router.find(asked)
    assert error.value.message == f"there is nothing at {asked}; there is: {', '.join(PATHS)}"
