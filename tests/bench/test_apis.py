import base64

import msgspec
import numpy as np
import orjson
import pytest

from shoal.bench.apis import Api, OpenAIApi, ShoalApi, SieApi, api_of

ROWS = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


def shoal_answer() -> bytes:
    items = [{"dense": {"dtype": "float32", "shape": [2], "data": row.tobytes()}} for row in ROWS]
    return msgspec.msgpack.encode({"model": "m", "items": items})


def openai_answer() -> bytes:
    data = [
        {"index": index, "embedding": base64.b64encode(ROWS[index].tobytes()).decode()}
        for index in (1, 0)
    ]
    return orjson.dumps({"data": data})


def sie_answer() -> bytes:
    items = [
        {"dense": {"values": {b"nd": True, b"type": "<f4", b"shape": [2], b"data": row.tobytes()}}}
        for row in ROWS
    ]
    return msgspec.msgpack.encode({"items": items})


@pytest.mark.parametrize(
    ("api", "answer"),
    [
        (ShoalApi("m"), shoal_answer()),
        (OpenAIApi("m", "/v1/embeddings"), openai_answer()),
        (SieApi("m"), sie_answer()),
    ],
)
def test_vectors_come_in_the_order_of_the_texts(api: Api, answer: bytes) -> None:
    assert (api.vectors(answer) == ROWS).all()


def test_requests_are_whole() -> None:
    head, _, body = OpenAIApi("m", "/embeddings").request(["a"]).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /embeddings HTTP/1.1\r\nHost: bench\r\n")
    assert b"Content-Length: %d" % len(body) in head
    assert orjson.loads(body) == {"model": "m", "input": ["a"], "encoding_format": "base64"}


def test_an_api_is_found_by_its_name() -> None:
    assert isinstance(api_of("sie", "m", ""), SieApi)
    assert isinstance(api_of("openai", "m", "/v1/embeddings"), OpenAIApi)
