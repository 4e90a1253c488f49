from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shoal.catalog.tasks import ExtractTask
from shoal.errors import InvalidRequest, PayloadTooLarge
from shoal.gateway.extract import ExtractOptions, extract_params
from shoal.values import ExtractParams
from shoal.wire.queue import Reply
from tests.gateway.conftest import Served, card
from tests.gateway.scripted import ScriptedWorker

pytestmark = pytest.mark.asyncio(loop_scope="session")

MSGPACK = "application/msgpack"
BONN = {"text": "Bonn", "label": "LOC", "score": 0.75, "start": 3, "end": 7}


async def test_entities_of_each_text(gateway: Served, worker: ScriptedWorker) -> None:
    response = await gateway.post("/v1/extract/ner", {"items": ["In Bonn", "bad", "long Bonn"]})
    assert response.status_code == 200
    body = response.json()
    assert (body["model"], body["usage"]) == ("ner", {"tokens": 6})
    first, second, third = body["items"]
    assert first == {"entities": [BONN], "tokens": 3, "truncated": False}
    assert second["error"]["param"] == "items[1]"
    assert third["truncated"] is True
    assert (worker.units[0].task, worker.units[0].params) == ("extract", ExtractParams())


async def test_messagepack_in_and_out(gateway: Served, worker: ScriptedWorker) -> None:
    params = {"labels": ["war", "peace"], "threshold": 0.25, "multi_label": True, "truncate": False}
    asked = msgspec.msgpack.encode({"items": ["a"], "params": params})
    response = await gateway.http.post(
        "/v1/extract/zero-shot", content=asked, headers={"content-type": MSGPACK}
    )
    (item,) = msgspec.msgpack.decode(response.content)["items"]
    assert item["labels"] == [{"label": "war", "score": 0.75}, {"label": "peace", "score": 0.375}]
    assert worker.units[0].params == ExtractParams(("war", "peace"), 0.25, True, False)


async def test_a_transcript_of_bytes(gateway: Served, worker: ScriptedWorker) -> None:
    asked = msgspec.msgpack.encode({"items": [b"RIFF"]})
    headers = {"content-type": MSGPACK, "accept": "application/json"}
    response = await gateway.http.post("/v1/extract/transcriber", content=asked, headers=headers)
    (item,) = response.json()["items"]
    assert item["text"] == " Hello world."
    assert item["segments"][0] == {"start_s": 0.0, "end_s": 1.5, "text": " Hello"}
    in_json = await gateway.post("/v1/extract/transcriber", {"items": [{"audio": "UklGRg=="}]})
    assert in_json.json()["items"][0]["language"] == "en"


async def test_what_is_no_map_is_an_error_not_a_crash(
    gateway: Served, worker: ScriptedWorker
) -> None:
    worker.answer = lambda unit, ack: Reply(unit.id, "w", ack, [1], objects=[b"\x01"])
    response = await gateway.post("/v1/extract/ner", {"items": ["a"]})
    assert (response.status_code, response.json()["error"]["code"]) == (500, "protocol")


@pytest.mark.parametrize(
    ("model", "params", "param", "says"),
    [
        ("zero-shot", {}, "params.labels", "name it in params.labels"),
        ("zero-shot", {"labels": []}, "params.labels", "is empty"),
        ("zero-shot", {"labels": ["a", " "]}, "params.labels", "empty label"),
        ("zero-shot", {"labels": "a"}, "params.labels", "array"),
        ("transcriber", {"labels": ["a"]}, "params.labels", "takes no labels"),
        ("ner", {"threshold": 1.5}, "params.threshold", "from 0 to 1"),
        ("ner", {"label": ["a"]}, "params.label", "'labels'"),
        ("reranker", {}, "model", "cannot extract"),
    ],
)
async def test_what_is_wrong_is_named(
    gateway: Served, model: str, params: Any, param: str, says: str
) -> None:
    response = await gateway.post(f"/v1/extract/{model}", {"items": ["a"], "params": params})
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, param)
    assert says in error["message"]


@pytest.mark.parametrize("labels", [["x"] * 1025, ["x" * 70_000]])
async def test_too_many_labels_are_refused(gateway: Served, labels: list[str]) -> None:
    response = await gateway.post(
        "/v1/extract/zero-shot", {"items": ["a"], "params": {"labels": labels}}
    )
    assert response.status_code == 413


async def test_labels_of_a_model_s_own() -> None:
    ner = card(extract=ExtractTask("token-labels", labels=["O", "B-PER", "I-PER", "B-LOC"]))
    assert extract_params(ExtractOptions(("PER",)), ner) == ExtractParams(("PER",))
    with pytest.raises(InvalidRequest, match=r"has no label 'PERS'.*'PER'"):
        extract_params(ExtractOptions(("PERS",)), ner)
    classes = card(extract=ExtractTask("sequence-labels", labels=["B-cell", "T-cell"]))
    assert extract_params(ExtractOptions(("B-cell",)), classes) == ExtractParams(("B-cell",))
    topics = card(extract=ExtractTask("nli", labels=["date"]))
    assert extract_params(ExtractOptions(), topics) == ExtractParams()


async def test_nested_is_for_models_that_find_spans() -> None:
    spans = card(extract=ExtractTask("spans"))
    asked = ExtractOptions(("a",), nested=True)
    assert extract_params(asked, spans) == ExtractParams(("a",), nested=True)
    with pytest.raises(InvalidRequest, match="name it in"):
        extract_params(ExtractOptions(), spans)
    with pytest.raises(InvalidRequest, match="finds no spans"):
        extract_params(asked, card(extract=ExtractTask("nli")))


@pytest.mark.parametrize("asked", [ExtractOptions(threshold=0.5), ExtractOptions(multi_label=True)])
async def test_a_transcript_has_no_scores_to_choose_by(asked: ExtractOptions) -> None:
    with pytest.raises(InvalidRequest, match="no label has a score"):
        extract_params(asked, card(extract=ExtractTask("transcript")))


async def test_a_schema_travels_as_text_in_place_of_labels() -> None:
    spans = card(extract=ExtractTask("spans"))
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    params = extract_params(ExtractOptions(schema=schema), spans)
    assert params.labels is None
    assert msgspec.json.decode(params.schema) == schema
    classes = card(extract=ExtractTask("nli"))
    with pytest.raises(InvalidRequest, match="finds no entities to fill in a schema"):
        extract_params(ExtractOptions(schema=schema), classes)
    with pytest.raises(InvalidRequest, match="or labels"):
        extract_params(ExtractOptions(("a",), schema=schema), spans)
    with pytest.raises(InvalidRequest, match="'a' is of type 'sum'") as error:
        wrong = {"type": "object", "properties": {"a": {"type": "sum"}}}
        extract_params(ExtractOptions(schema=wrong), spans)
    assert error.value.param == "params.schema"
    with pytest.raises(PayloadTooLarge, match="at most 65536 bytes"):
        extract_params(ExtractOptions(schema=schema | {"title": "x" * 70_000}), spans)
