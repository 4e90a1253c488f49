"""What breaks other model servers, on the native and the OpenAI route."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import msgspec
import numpy as np
import pytest

from shoal.bench.serving import Serving
from tests.e2e.likeness import same

MODEL = "all-MiniLM-L6-v2"
LONG = "word " * 1000

NATIVE = f"/v1/encode/{MODEL}"
OPENAI = "/v1/embeddings"


def native(stack: Serving, items: object, **params: object) -> httpx.Response:
    body = {"items": items} | ({"params": params} if params else {})
    return httpx.post(stack.url + NATIVE, json=body, timeout=120)


def compat(stack: Serving, given: object, **fields: object) -> httpx.Response:
    return httpx.post(
        stack.url + OPENAI, json={"model": MODEL, "input": given} | fields, timeout=120
    )


def dense(response: httpx.Response) -> np.ndarray:
    assert response.status_code == 200, response.text
    return np.array([item["dense"] for item in response.json()["items"]], np.float32)


@pytest.mark.parametrize("empty", ["", "   ", "\n\t"])
def test_empty_text_has_a_vector_and_neighbours_keep_their_places(
    stack: Serving, empty: str
) -> None:
    three = dense(native(stack, ["fish", empty, "bird"]))
    assert np.isfinite(three).all()
    alone = dense(native(stack, ["bird"]))
    assert same(three[2], alone[0])
    assert compat(stack, ["fish", empty]).status_code == 200


@pytest.mark.parametrize(
    "text",
    [
        "nul \0 inside",
        "\u202eright to left \u0627\u0644\u0639\u0631\u0628\u064a\u0629",
        "e" + "\u0301" * 1000,
        "\U0001f41f" * 300,
        "\ufeff\u200b\u200d",
        "x" * 100_000,
    ],
)
def test_odd_text_has_a_vector(stack: Serving, text: str) -> None:
    assert np.isfinite(dense(native(stack, [text]))).all()
    assert compat(stack, text).status_code == 200


@pytest.mark.parametrize("route", [NATIVE, OPENAI])
def test_a_lone_surrogate_is_a_clear_400(stack: Serving, route: str) -> None:
    field = "items" if route == NATIVE else "input"
    body = f'{{"model": "{MODEL}", "{field}": ["\\ud800"]}}'
    if route == NATIVE:
        body = '{"items": ["\\ud800"]}'
    response = httpx.post(
        stack.url + route, content=body, headers={"content-type": "application/json"}
    )
    assert response.status_code == 400
    assert "surrogate" in response.text


def test_one_bad_item_among_eight(stack: Serving) -> None:
    items = ["a", "b", "c", {"tokens": [99999999]}, "e", "f", "g", "h"]
    response = native(stack, items)
    assert response.status_code == 200
    results = response.json()["items"]
    assert [("error" in item) for item in results] == [i == 3 for i in range(8)]
    assert "99999999" in results[3]["error"]["message"]
    alone = dense(native(stack, ["h"]))
    assert same(np.array(results[7]["dense"]), alone[0])


def test_one_bad_item_fails_an_openai_request_and_is_named(stack: Serving) -> None:
    response = compat(stack, [[101, 102], [99999999]])
    assert response.status_code == 400
    assert "input[1]" in response.json()["error"]["message"]


@pytest.mark.parametrize("given", [LONG, [LONG, "fish"]])
def test_truncation_is_one_policy(stack: Serving, given: object) -> None:
    items = [given] if isinstance(given, str) else given
    answer = native(stack, items).json()
    assert answer["items"][0]["truncated"] is True
    assert answer["items"][0]["tokens"] == 256
    body = compat(stack, given).json()
    assert body["data"][0]["truncated"] is True
    assert body["usage"]["prompt_tokens"] == answer["usage"]["tokens"]


@pytest.mark.parametrize("given", [LONG, ["fish", LONG]])
def test_too_long_without_truncation_says_how_many_and_how_many_may_be(
    stack: Serving, given: object
) -> None:
    where = 0 if isinstance(given, str) else 1
    response = compat(stack, given, truncate=False)
    assert response.status_code == 400
    message = response.json()["error"]["message"]
    assert "1002" in message
    assert "256" in message
    assert f"input[{where}]" in message or isinstance(given, str)
    items = native(stack, ["fish", LONG], truncate=False).json()["items"]
    assert items[1]["error"]["code"] == "too_many_tokens"
    assert "dense" in items[0]
    assert native(stack, [LONG], truncate=False).status_code == 400


def test_a_body_over_the_limit_is_413_and_the_connection_survives(stack: Serving) -> None:
    with httpx.Client(base_url=stack.url) as client:
        response = client.post(NATIVE, content=b" " * (65 * 1024 * 1024), timeout=60)
        assert response.status_code == 413
        assert "67108864" in response.json()["error"]["message"]
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("given", [[100, 201], [[100], [201, 7]]])
def test_openai_token_ids(stack: Serving, given: list[object]) -> None:
    response = compat(stack, given)
    assert response.status_code == 200
    assert len(response.json()["data"]) == (1 if isinstance(given[0], int) else 2)


@pytest.mark.parametrize("given", [[-1], [30522], [[5], [2**40]], [2**80]])
def test_openai_token_ids_out_of_range(stack: Serving, given: object) -> None:
    response = compat(stack, given)
    assert response.status_code == 400, response.text


@pytest.mark.parametrize(
    "given", [None, 7, 1.5, {}, [], ["a", 3], ["a", ["b"]], [1.5], [True], [None], [{}]]
)
def test_openai_inputs_of_wrong_shape(stack: Serving, given: object) -> None:
    response = compat(stack, given)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"], response.text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b'{"items": "text"}',
        b'{"items": [1]}',
        b'{"items": [{"txt": "a"}]}',
        b'{"items": [{}]}',
        b'{"items": ["a"], "parms": {}}',
        b'{"items": ["a"], "params": {"dimension": 3}}',
        b'{"items": ["a"], "params": {"dtype": "float64"}}',
        b'{"items": ["a"], "params": {"prompt": "nope"}}',
        b'{"items": ["a"], "params": {"outputs": ["sparse"]}}',
        b'{"items": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b"\xff\xfe",
    ],
)
def test_malformed_native_bodies_are_400_with_a_message(stack: Serving, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    response = httpx.post(stack.url + NATIVE, content=body, headers=headers)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["message"]


def test_messagepack_both_ways(stack: Serving) -> None:
    headers = {"content-type": "application/msgpack"}
    body = msgspec.msgpack.encode(
        {"items": ["fish", {"text": "bird"}, [7592]], "params": {"dtype": "float16"}}
    )
    response = httpx.post(stack.url + NATIVE, content=body, headers=headers)
    assert response.headers["content-type"] == "application/msgpack"
    items = msgspec.msgpack.decode(response.content)["items"]
    vector = np.frombuffer(items[0]["dense"]["data"], "<f2")
    assert items[0]["dense"]["shape"] == [384]
    assert same(vector.astype(np.float32), dense(native(stack, ["fish"]))[0])


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\x93", b"\x81\xa5items\x91\xa2\xff\xff", b"\xdf\xff\xff\xff\xff"]
)
def test_malformed_messagepack_is_a_400(stack: Serving, body: bytes) -> None:
    headers = {"content-type": "application/msgpack"}
    response = httpx.post(stack.url + NATIVE, content=body, headers=headers)
    assert response.status_code == 400, response.text


def test_the_same_text_alone_and_in_a_mixed_batch(stack: Serving) -> None:
    rng = np.random.default_rng(5)
    texts = [
        " ".join(["fish", "bird", "tree"][k % 3] for k in range(int(n)))
        for n in rng.integers(1, 300, 60)
    ]
    together = dense(native(stack, texts))
    for index in (0, 17, 59):
        alone = dense(native(stack, [texts[index]]))[0]
        assert float(together[index] @ alone) >= 0.9999


def test_a_small_request_waits_for_about_one_batch(stack: Serving) -> None:
    """Many long texts, then "hi": it must not wait for all of them."""
    texts = [f"{i} " + "word " * 250 for i in range(160)]
    headers = {"X-Request-Timeout": "300"}

    def large() -> float:
        body = {"items": texts}
        httpx.post(stack.url + NATIVE, json=body, headers=headers, timeout=300).raise_for_status()
        return time.monotonic()

    with ThreadPoolExecutor(1) as pool:
        start = time.monotonic()
        future = pool.submit(large)
        while not stack_busy(stack):
            assert not future.done()
        asked = time.monotonic()
        answer = native(stack, ["hi"])
        answered = time.monotonic()
        whole_s = future.result() - start
    assert answer.status_code == 200
    # A batch is 0.1 predicted seconds of a whole that takes many; a third leaves room for noise.
    print(f"hi: {answered - asked:.2f} s of {whole_s:.2f} s")
    assert answered - asked < whole_s / 3


def stack_busy(stack: Serving) -> bool:
    text = httpx.get(f"{stack.url}/metrics").text
    lines = [x for x in text.splitlines() if x.startswith("shoal_gateway_outstanding_units ")]
    return bool(lines) and float(lines[0].split()[1]) > 0


def test_more_work_than_the_queue_takes_is_a_429_before_any_work(stack: Serving) -> None:
    items = json.dumps({"items": ["x " * 200] * 8193})
    response = httpx.post(
        stack.url + NATIVE, content=items, headers={"content-type": "application/json"}
    )
    assert response.status_code in (413, 400, 429)
    assert "8192" in response.json()["error"]["message"]
