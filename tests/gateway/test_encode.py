from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from shoal.errors import ErrorInfo
from shoal.values import EncodeParams
from shoal.wire.queue import Reply
from tests.gateway.conftest import MODEL, Served
from tests.gateway.scripted import DIM, ScriptedWorker

pytestmark = pytest.mark.asyncio(loop_scope="session")

MSGPACK = "application/msgpack"


async def test_texts_become_vectors_in_order(gateway: Served) -> None:
    response = await gateway.encode(["a", "bcd"])
    assert response.status_code == 200
    body = response.json()
    assert body["model"] == MODEL
    assert [item["dense"] for item in body["items"]] == [[3.0] * DIM, [5.0] * DIM]
    assert body["items"][0]["truncated"] is False
    assert body["usage"] == {"tokens": 6}


async def test_a_messagepack_body_gets_a_messagepack_answer(
    gateway: Served, worker: ScriptedWorker
) -> None:
    body = msgspec.msgpack.encode(
        {"items": ["héllo", {"text": "x"}], "params": {"dtype": "float16"}}
    )
    response = await gateway.http.post(
        f"/v1/encode/{MODEL}", content=body, headers={"content-type": MSGPACK}
    )
    assert response.headers["content-type"] == MSGPACK
    first = msgspec.msgpack.decode(response.content)["items"][0]["dense"]
    assert (first["dtype"], first["shape"]) == ("float16", [DIM])
    assert np.frombuffer(first["data"], "<f2").tolist() == [7.0] * DIM
    assert worker.units[0].encoding == "msgpack"
    assert worker.units[0].items == [msgspec.msgpack.encode("héllo"), b"\x81\xa4text\xa1x"]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("application/json", "application/json"),
        ("application/msgpack", MSGPACK),
        ("application/x-msgpack, application/json;q=0.5", MSGPACK),
        ("application/vnd.msgpack", MSGPACK),
        ("*/*", "application/json"),
    ],
)
async def test_accept_decides(gateway: Served, accept: str, expected: str) -> None:
    response = await gateway.encode(["a"], headers={"accept": accept})
    assert response.headers["content-type"] == expected


async def test_items_may_be_texts_token_ids_or_maps(
    gateway: Served, worker: ScriptedWorker
) -> None:
    response = await gateway.encode(["a", [101, 7], {"text": "b"}, {"tokens": [1]}, "", "  "])
    assert len(response.json()["items"]) == 6
    assert worker.units[0].items[1] == b"[101,7]"


async def test_parameters_travel(gateway: Served, worker: ScriptedWorker) -> None:
    response = await gateway.encode(
        ["a"], dimensions=4, dtype="float16", normalize=False, truncate=False, prompt="query"
    )
    assert response.json()["items"][0]["dense"] == [3.0] * 4
    params = worker.units[0].params
    assert isinstance(params, EncodeParams)
    assert params.dimensions == 4
    assert params.dtype == "float16"
    assert (params.normalize, params.truncate, params.prompt) == (False, False, "query")


async def test_an_instruction_travels_to_a_model_that_takes_one(
    gateway: Served, worker: ScriptedWorker
) -> None:
    said = "find what answers the question"
    asked = {"items": ["a"], "params": {"instruction": said}}
    assert (await gateway.post("/v1/encode/instructed", asked)).status_code == 200
    assert worker.units[0].params == EncodeParams(instruction=said)
    model = (await gateway.http.get("/v1/models/instructed")).json()
    assert model["instructed"] == ["encode", "score"]
    for wrong, status, says in ((" ", 400, "empty"), ("x" * 4097, 413, "4096")):
        asked = {"items": ["a"], "params": {"instruction": wrong}}
        response = await gateway.post("/v1/encode/instructed", asked)
        assert (response.status_code, response.json()["error"]["param"]) == (
            status,
            "params.instruction",
        )
        assert says in response.json()["error"]["message"]


async def test_an_alias_is_resolved_and_echoed(gateway: Served, worker: ScriptedWorker) -> None:
    response = await gateway.http.post("/v1/encode/tiny", json={"items": ["a"]})
    assert response.json()["model"] == "tiny"
    assert worker.units[0].model == MODEL


async def test_a_large_request_is_cut_and_joined_in_order(
    gateway: Served, worker: ScriptedWorker
) -> None:
    items = ["x" * (n % 7) for n in range(1000)]
    body = (await gateway.encode(items)).json()
    assert [item["dense"][0] for item in body["items"]] == [len(text) + 2.0 for text in items]
    assert len(worker.units) == -(-1000 // 64)
    assert body["usage"]["tokens"] == 3000


async def test_a_bad_item_fails_alone_and_is_named(gateway: Served) -> None:
    response = await gateway.encode(["a", "bad", "long"])
    assert response.status_code == 200
    first, second, third = response.json()["items"]
    assert first["dense"] == [3.0] * DIM
    assert second == {
        "error": {
            "code": "too_many_tokens",
            "message": "300 tokens; the model takes 256",
            "retryable": False,
            "param": "items[1]",
        }
    }
    assert third["truncated"] is True


async def test_when_all_items_fail_so_does_the_request(gateway: Served) -> None:
    response = await gateway.encode(["bad", "bad"])
    assert response.status_code == 400
    told = response.json()
    assert told["error"]["param"] == "items[0]"
    assert told["items"] == [{"error": {**told["error"], "param": f"items[{n}]"}} for n in (0, 1)]
    packed = await gateway.encode(["bad"], headers={"accept": MSGPACK})
    assert msgspec.msgpack.decode(packed.content)["items"] == told["items"][:1]


@pytest.mark.parametrize(
    ("param", "shown"),
    [("labels", "params.labels"), ("instruction", "params.instruction"), ("query", "query")],
)
async def test_a_parameter_that_a_worker_refuses_is_named_as_the_gateway_names_it(
    gateway: Served, worker: ScriptedWorker, param: str, shown: str
) -> None:
    error = ErrorInfo("invalid_request", "it will not do", 400, param=param)
    worker.answer = lambda unit, ack: Reply(unit.id, "w", ack, [0, 0], errors={0: error, 1: error})
    response = await gateway.encode(["a", "b"])
    assert response.status_code == 400
    assert response.json() == {
        "error": {
            "code": "invalid_request",
            "message": "it will not do",
            "retryable": False,
            "param": shown,
        }
    }
    compat = (await gateway.embeddings(["a", "b"])).json()["error"]
    assert (compat["param"], compat["message"]) == (param, "it will not do")


async def test_a_model_that_cannot_be_loaded_is_no_items_fault(
    gateway: Served, worker: ScriptedWorker
) -> None:
    error = ErrorInfo("model_load_failed", "model 'x' could not be loaded: no file", 502)
    worker.answer = lambda unit, ack: Reply(unit.id, "w", ack, error=error)
    response = await gateway.encode(["a", "b"])
    assert response.status_code == 502
    assert response.json()["error"]["param"] is None
    assert "items" not in response.json()
    assert (await gateway.embeddings(["a"])).json()["error"]["message"] == error.message


async def test_a_unit_that_failed_as_a_whole_fails_its_items(
    gateway: Served, worker: ScriptedWorker
) -> None:
    error = ErrorInfo("dead_lettered", "it crashed its runtime three times", 500)
    worker.answer = lambda unit, ack: Reply(unit.id, "w", ack, error=error)
    response = await gateway.encode(["a"])
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "dead_lettered"


async def test_an_answer_that_does_not_add_up_is_an_error_not_a_crash(
    gateway: Served, worker: ScriptedWorker
) -> None:
    worker.answer = lambda unit, ack: Reply(unit.id, "w", ack, tokens=[1, 2, 3])
    response = await gateway.encode(["a"])
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "protocol"


@pytest.mark.parametrize(
    ("body", "param", "says"),
    [
        ({"items": []}, "items", "at least one"),
        ({"items": ["a", "b", "c", 4]}, "items[3]", "it is a number"),
        ({"items": ["a", None]}, "items[1]", "must be"),
        ({"items": "a"}, "items", "array"),
        ({"itmes": ["a"], "items": ["a"]}, "itmes", "did you mean 'items'"),
        ({}, "items", "missing"),
        ({"items": ["a"], "params": {"dimension": 2}}, "params.dimension", "'dimensions'"),
        ({"items": ["a"], "params": {"dimensions": 0}}, "params.dimensions", "1 to 8"),
        ({"items": ["a"], "params": {"dimensions": -1}}, "params.dimensions", "1 to 8"),
        ({"items": ["a"], "params": {"dimensions": 9}}, "params.dimensions", "1 to 8"),
        ({"items": ["a"], "params": {"dimensions": "2"}}, "params.dimensions", "int"),
        ({"items": ["a"], "params": {"dtype": "int4"}}, "params.dtype", "float16"),
        ({"items": ["a"], "params": {"prompt": "qury"}}, "params.prompt", "'query'"),
        (
            {"items": ["a"], "params": {"instruction": "find"}},
            "params.instruction",
            "takes no instruction; its prompts are 'query', 'passage'",
        ),
        ({"items": ["a"], "params": {"outputs": ["sparse"]}}, "params.outputs", "dense"),
        ({"items": ["a"], "params": {"outputs": []}}, "params.outputs", "empty"),
        ({"items": ["a"], "params": {"truncate": "yes"}}, "params.truncate", "bool"),
    ],
)
async def test_what_is_wrong_is_named(gateway: Served, body: Any, param: str, says: str) -> None:
    response = await gateway.http.post(f"/v1/encode/{MODEL}", json=body)
    error = response.json()["error"]
    assert response.status_code == 400
    assert error["param"] == param
    assert says in error["message"]
    assert error["retryable"] is False


async def test_an_unknown_model_is_404_with_the_nearest(gateway: Served) -> None:
    response = await gateway.http.post("/v1/encode/org%2Ftiny.modle", json={"items": ["a"]})
    assert response.status_code == 404
    assert "did you mean 'org/tiny.model'" in response.json()["error"]["message"]


async def test_errors_follow_accept(gateway: Served) -> None:
    response = await gateway.encode([], headers={"accept": MSGPACK})
    assert msgspec.msgpack.decode(response.content)["error"]["code"] == "invalid_request"


async def test_strange_texts_are_carried_byte_for_byte(
    gateway: Served, worker: ScriptedWorker
) -> None:
    texts = ["\x00", "שלום", "e" + "\u0301" * 1000, "\ufeff", "😀"]
    assert (await gateway.encode(texts)).status_code == 200
    assert [msgspec.json.decode(item) for item in worker.units[0].items] == texts


async def test_a_lone_surrogate_is_a_clear_400(gateway: Served) -> None:
    response = await gateway.http.post(
        f"/v1/encode/{MODEL}",
        content=b'{"items": ["ok", "\\ud800"]}',
        headers={"content-type": "application/json"},
    )
    assert response.status_code == 400
    assert "surrogate" in response.json()["error"]["message"]


EVERY = "/v1/encode/every-vector"


async def test_several_outputs_in_one_answer(gateway: Served, worker: ScriptedWorker) -> None:
    outputs = ["sparse", "multivector", "dense"]
    response = await gateway.post(EVERY, {"items": ["a", "bad"], "params": {"outputs": outputs}})
    first, second = response.json()["items"]
    assert first == {
        "sparse": {"indices": [3, 7], "values": [3.0, 3.0]},
        "multivector": [[3.0] * 4] * 2,
        "dense": [3.0] * DIM,
        "tokens": 3,
        "truncated": False,
    }
    assert set(second) == {"error"}
    assert len(worker.units) == 1


async def test_several_outputs_in_messagepack(gateway: Served) -> None:
    body = {"items": ["abc"], "params": {"outputs": ["sparse", "multivector"]}}
    response = await gateway.post(EVERY, body, accept=MSGPACK)
    (item,) = msgspec.msgpack.decode(response.content)["items"]
    assert item["sparse"]["indices"] == {
        "dtype": "int32",
        "shape": [2],
        "data": np.array([3, 7], "<i4").tobytes(),
    }
    assert item["sparse"]["values"]["dtype"] == "float32"
    assert (item["multivector"]["dtype"], item["multivector"]["shape"]) == ("float32", [2, 4])


@pytest.mark.parametrize(
    ("dtype", "shown"),
    [
        ("int8", {"values": [5] * DIM, "dtype": "int8", "scale": 0.5}),
        ("uint8", {"values": [5] * DIM, "dtype": "uint8", "scale": 0.5, "zero_point": 1.0}),
        ("binary", {"values": [255], "dtype": "binary"}),
    ],
)
async def test_quantised_vectors_come_with_what_restores_them(
    gateway: Served, dtype: str, shown: Any
) -> None:
    items = (await gateway.encode(["abc", "bad"], dtype=dtype)).json()["items"]
    assert items[0]["dense"] == shown
    assert set(items[1]) == {"error"}
    response = await gateway.encode(["abc"], headers={"accept": MSGPACK}, dtype=dtype)
    (item,) = msgspec.msgpack.decode(response.content)["items"]
    packed = item["dense"]
    assert np.frombuffer(packed.pop("data"), "u1").tolist() == shown["values"]
    assert packed.pop("shape") == [len(shown["values"])]
    assert packed == {name: value for name, value in shown.items() if name != "values"}


async def test_quantised_dense_beside_outputs_that_are_not(gateway: Served) -> None:
    params = {"outputs": ["dense", "sparse"], "dtype": "int8"}
    response = await gateway.post(EVERY, {"items": ["a"], "params": params})
    (item,) = response.json()["items"]
    assert item["dense"]["scale"] == 0.5
    assert item["sparse"] == {"indices": [3, 7], "values": [3.0, 3.0]}


async def test_the_model_s_first_output_is_the_default(gateway: Served) -> None:
    (item,) = (await gateway.post("/v1/encode/terms", {"items": ["a"]})).json()["items"]
    assert set(item) == {"sparse", "tokens", "truncated"}
