"""Every task through a broker, a worker and the fake runtime: what comes back is what its rows say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from shoal.broker.server import BrokerServer
from shoal.runtimes.fake.hashing import seed_of
from shoal.runtimes.fake.items import Items
from shoal.runtimes.fake.outputs import output_of
from shoal.settings import WorkerSettings
from shoal.tasks.fde import WIDTH, fixed
from shoal.tasks.late import unit
from shoal.values import EncodeParams, ExtractParams, Params, ScoreParams, TokenizeParams
from shoal.wire.outputs import Output, read_outputs
from shoal.wire.queue import Reply
from shoal.worker.service import Worker
from tests.worker.scripted import ScriptedGateway, until
from tests.worker.text.conftest import bert_like

CARDS = {
    "late": (
        "{encode: {dense: {dim: 8}, multivector: {dim: 4, query_tokens: 8, skip: ['.']}},"
        " score: {head: maxsim}}"
    ),
    "reranker": "{score: {head: cross-encoder}}",
    "ner": "{extract: {head: token-labels, labels: [O, B-X, I-X]}}",
    "nli": "{extract: {head: nli, labels: [entailment, contradiction]}}",
}
CARD = """\
name: {name}
source: {{dir: .}}
family: fake
tasks: {tasks}
max_tokens: 12
profiles: {{default: {{runtime: fake, max_batch_items: 3, options: {{nan: 10}}}}}}
"""
#: Its token is one that the fake runtime answers with NaN.
CURSED = "unafraid"


class Asking:
    """A gateway that asks one model at a time."""

    def __init__(self, gateway: ScriptedGateway) -> None:
        self._gateway = gateway

    async def __call__(self, model: str, params: Params, *items: str) -> Reply:
        gateway = self._gateway
        before = len(gateway.replies)
        await gateway.publish([*items], model=model, params=params)
        await until(lambda: len(gateway.replies) > before, timeout_s=20.0)
        return gateway.replies[-1]


@pytest.fixture
async def ask(
    broker: BrokerServer, gateway: ScriptedGateway, tmp_path: Path
) -> AsyncIterator[Asking]:
    for name, tasks in CARDS.items():
        (tmp_path / f"{name}.yaml").write_text(CARD.format(name=name, tasks=tasks))
    bert_like().save(str(tmp_path / "tokenizer.json"))
    catalog = [str(tmp_path / f"{name}.yaml") for name in CARDS]
    worker = Worker(WorkerSettings(broker_url=broker.url, catalog=catalog, models=list(CARDS)))
    await worker.start()
    models = [worker.core.models[name] for name in CARDS]
    await until(lambda: all(model.state == "resident" for model in models))
    yield Asking(gateway)
    await worker.close()


def outputs_of(reply: Reply) -> dict[str, Output]:
    assert reply.error is None
    return read_outputs(
        reply.outputs, reply.lengths, reply.indices, len(reply.tokens) - len(reply.errors)
    )


def rows_of(model: str, output: str, text: str, **options: Any) -> np.ndarray[Any, Any]:
    """What the fake runtime answers for this text alone."""
    tokens = np.array(bert_like().encode(text).ids)
    if output == "query":
        tokens = np.array([*tokens, *[4] * (8 - len(tokens))])
    items = Items(tokens, np.array([len(tokens)]), None)
    seed = seed_of(model, "multivector" if output == "query" else output)
    return np.asarray(output_of(items, options, seed).rows()[0])


async def test_outputs_of_tokens_and_of_the_whole(ask: Asking) -> None:
    params = EncodeParams(("multivector", "fde", "dense"), dtype="int8")
    reply = await ask("late", params, "a fish swims.", "bird", CURSED)
    assert {index: error.code for index, error in reply.errors.items()} == {
        2: "model_output_invalid"
    }
    outputs = outputs_of(reply)
    vectors, scales = (outputs[name].rows() for name in ("multivector", "multivector.scale"))
    expected = rows_of("late", "multivector", "a fish swims.", head="colbert", dim=4)
    expected = unit(np.delete(expected, 4, axis=0))  # the full stop has none
    found = np.asarray(vectors[0]) * np.asarray(scales[0])[:, None]
    np.testing.assert_allclose(found, expected, atol=1 / 250)
    assert outputs["fde"].values.shape == (2, WIDTH)
    whole = outputs["fde"].values[0] * outputs["fde.scale"].values[0]
    reference = fixed(expected, query=False)
    np.testing.assert_allclose(whole, reference, atol=np.abs(reference).max() / 250)
    assert outputs["dense"].values.dtype == "int8"
    assert reply.tokens == [6, 3, 0]


async def test_late_interaction_of_more_documents_than_a_batch_takes(ask: Asking) -> None:
    """The query is computed once, in one of the batches."""
    documents = ["a fish swims.", "bird", CURSED, "a", "fish fish", "a bird swims a"]
    reply = await ask("late", ScoreParams(b'"a fish"'), *documents)
    assert list(reply.errors) == [2]
    query = unit(rows_of("late", "query", "a fish", head="colbert", dim=4))
    expected = []
    for document in documents[:2] + documents[3:]:
        vectors = rows_of("late", "multivector", document, head="colbert", dim=4)
        kept = np.array(bert_like().encode(document).ids) != 11
        expected.append((query @ unit(vectors[kept]).T).max(axis=1).sum())
    np.testing.assert_allclose(outputs_of(reply)["score"].values, expected, rtol=1e-5)
    assert reply.tokens == [6 + 8, 3 + 8, 0, 3 + 8, 4 + 8, 6 + 8]


async def test_a_query_that_cannot_be_answered_fails_every_document(ask: Asking) -> None:
    reply = await ask("late", ScoreParams(f'"{CURSED}"'.encode()), "a", "bird")
    assert [error.code for error in reply.errors.values()] == ["model_output_invalid"] * 2
    reply = await ask("late", ScoreParams(b"7"), "a", "bird")
    assert [error.code for error in reply.errors.values()] == ["invalid_item"] * 2
    assert "the query" in reply.errors[0].message


async def test_pairs_get_the_activation_of_the_card(ask: Asking) -> None:
    documents = ["fish", CURSED, "bird " * 20]
    raw = outputs_of(await ask("reranker", ScoreParams(b'"a"', raw=True), *documents))["score"]
    reply = await ask("reranker", ScoreParams(b'"a"'), *documents)
    np.testing.assert_allclose(
        outputs_of(reply)["score"].values, 1 / (1 + np.exp(-raw.values)), rtol=1e-6
    )
    assert reply.truncated == [2]
    assert reply.tokens == [5, 0, 12]
    assert list(reply.errors) == [1]


async def test_entities_of_a_text_longer_than_the_model_takes(ask: Asking) -> None:
    texts = ["A FISH swims", "a bird swims " * 10, CURSED, ""]
    reply = await ask("ner", ExtractParams(), *texts)
    assert list(reply.errors) == [2]
    told = [msgspec.msgpack.decode(answer)["entities"] for answer in reply.objects]
    rows = rows_of(
        "ner", "extract", "a fish bird swims", head="token-labels", labels=["O", "X", "X"]
    )
    taken = {
        word
        for word, row in zip(("a", "fish", "bird", "swims"), rows[1:-1], strict=True)
        if row.argmax() > 0
    }
    assert taken, "else this would show nothing"
    for text, entities in zip((texts[0], texts[1], ""), told, strict=True):
        found = " ".join(entity["text"] for entity in entities).lower().split()
        assert found == [word for word in text.lower().split() if word in taken]
        assert all(text[e["start"] : e["end"]] == e["text"] for e in entities)
    assert not reply.truncated
    assert reply.tokens[1] > 12


async def test_zero_shot_labels_are_as_many_sequences(ask: Asking) -> None:
    labels = ("fish", "bird", "a")
    reply = await ask("nli", ExtractParams(labels), "a fish swims", "bird")
    told = [msgspec.msgpack.decode(answer)["labels"] for answer in reply.objects]
    for found in told:
        assert sorted(label["label"] for label in found) == sorted(labels)
        assert sum(label["score"] for label in found) == pytest.approx(1.0, abs=1e-6)
    reply = await ask("nli", ExtractParams(), "a", "bird")
    assert [error.code for error in reply.errors.values()] == ["invalid_request"] * 2


async def test_tokens_need_no_batch(ask: Asking) -> None:
    reply = await ask("ner", TokenizeParams(), "a fish", "bird")
    assert (reply.error, reply.errors, reply.outputs) == (None, {}, {})
    assert reply.tokens == [4, 3]
    assert reply.timings.batch_items == 0
    (first, _) = (msgspec.msgpack.decode(told)["tokens"] for told in reply.objects)
    assert [token["text"] for token in first] == ["[CLS]", "a", "fish", "[SEP]"]
    assert [token["start"] for token in first] == [None, 0, 2, None]
