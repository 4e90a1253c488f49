"""What a program sees, through both clients, over real sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.client import Limits
from shoal.errors import (
    ConfigError,
    DeadlineExceeded,
    InvalidItem,
    InvalidRequest,
    ModelOutputInvalid,
    NotFound,
    Overloaded,
    PayloadTooLarge,
    ProtocolError,
    ShoalError,
    Unauthorized,
    Unavailable,
    UnknownModel,
)
from tests.client.conftest import Ask
from tests.client.scripted import (
    MSGPACK,
    Response,
    ScriptedGateway,
    Seen,
    Step,
    answer,
    item_error,
    packed,
    refuses,
    says,
    vector,
)
from tests.client.waiting import until

M = "all-MiniLM-L6-v2"


def test_strings_become_rows_in_order(ask: Ask) -> None:
    vectors = ask(lambda c: c.encode(M, ["3", "1", "2"]))
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[3.0] * 4, [1.0] * 4, [2.0] * 4]


def test_one_string_becomes_one_vector(ask: Ask) -> None:
    assert ask(lambda c: c.encode(M, "7")).tolist() == [7.0] * 4


def test_token_ids_and_numpy_inputs(ask: Ask) -> None:
    assert ask(lambda c: c.encode(M, [[101, 102], [5]]))[:, 0].tolist() == [101.0, 5.0]
    assert ask(lambda c: c.encode(M, np.array([[8, 9]])))[:, 0].tolist() == [8.0]
    assert ask(lambda c: c.encode(M, np.array(["4", "5"])))[:, 0].tolist() == [4.0, 5.0]


def test_no_texts_ask_nothing(ask: Ask, gateway: ScriptedGateway) -> None:
    assert ask(lambda c: c.encode(M, [])).shape == (0, 0)
    assert ask(lambda c: c.encode(M, [], dimensions=64, dtype="float16")).shape == (0, 64)
    assert gateway.seen == []


def test_a_turn_travels_as_headers_of_every_request(ask: Ask, gateway: ScriptedGateway) -> None:
    limits = Limits(request_items=1)
    ask(lambda c: c.encode(M, ["1", "2"], priority=-3, bulk=True, user="Zoë"), limits=limits)
    for seen in gateway.seen:
        named = {name: seen.headers[name] for name in ("x-priority", "x-class", "x-user")}
        assert named == {"x-priority": "-3", "x-class": "bulk", "x-user": "Zoë"}
    gateway.seen.clear()
    ask(lambda c: c.encode(M, ["1"], priority=0, bulk=False, user=""))
    assert not {"x-priority", "x-class", "x-user"} & gateway.seen[0].headers.keys()


@pytest.mark.parametrize("user", ["a\nb", " a", "\ud800", "a\x00"])
def test_a_user_that_no_header_can_carry_is_refused(
    ask: Ask, gateway: ScriptedGateway, user: str
) -> None:
    with pytest.raises(InvalidRequest, match="user is"):
        ask(lambda c: c.encode(M, ["1"], user=user))
    assert gateway.seen == []


def test_options_travel_and_unset_ones_do_not(ask: Ask, gateway: ScriptedGateway) -> None:
    vectors = ask(
        lambda c: c.encode(
            "org/a model", ["1"], dimensions=2, dtype="float16", normalize=False, prompt="query"
        ),
        api_key="secret",
        timeout_s=30,
    )
    assert (vectors.shape, vectors.dtype) == ((1, 2), np.float16)
    ask(lambda c: c.encode(M, ["1"], truncate=False, instruction="find"))
    first, second = gateway.seen
    assert first.path == "/v1/encode/org/a model"
    assert first.body["params"] == {
        "outputs": ["dense"],
        "dimensions": 2,
        "dtype": "float16",
        "normalize": False,
        "truncate": True,
        "prompt": "query",
    }
    assert first.headers["authorization"] == "Bearer secret"
    assert 29 < float(first.headers["x-request-timeout"]) <= 30
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert "authorization" not in second.headers
    assert second.body["params"] == {
        "outputs": ["dense"],
        "dtype": "float32",
        "truncate": False,
        "instruction": "find",
    }


def test_large_inputs_are_cut_bounded_and_joined_in_order(
    ask: Ask, gateway: ScriptedGateway
) -> None:
    async def late(seen: Seen) -> Response:
        before = len(gateway.seen)
        while len(gateway.seen) == before:  # a later request overtakes this one
            await asyncio.sleep(0.005)
        return await answer(seen)

    gateway.script.extend([late, answer, late, answer, answer])
    reports: list[tuple[int, int]] = []
    texts = [str(n) for n in range(100)]
    vectors = ask(
        lambda c: c.encode(M, texts, progress=lambda done, total: reports.append((done, total))),
        limits=Limits(request_items=7, in_flight=3),
    )
    assert vectors[:, 0].tolist() == [float(n) for n in range(100)]
    assert len(gateway.seen) == 15
    assert 1 < gateway.most_at_once <= 3
    assert [done for done, _ in reports] == sorted({done for done, _ in reports})
    assert reports[-1] == (100, 100)


def test_a_bar_goes_to_stderr_only(ask: Ask, capfd: pytest.CaptureFixture[str]) -> None:
    ask(lambda c: c.encode(M, ["1", "2"], progress=True))
    assert capfd.readouterr().out == ""


def test_retryable_refusals_are_retried_no_sooner_than_asked(
    ask: Ask, gateway: ScriptedGateway
) -> None:
    gateway.script.extend(
        [
            refuses(429, "overloaded", "full", retryable=True, retry_after="0.2"),
            refuses(503, "unavailable", "broker away", retryable=True, retry_after="0.1"),
            says(Response(502, b"<html>Bad Gateway</html>", {"content-type": "text/html"})),
        ]
    )
    began = time.monotonic()
    assert ask(lambda c: c.encode(M, "7"))[0] == 7.0
    assert time.monotonic() - began >= 0.3
    budgets = [float(seen.headers["x-request-timeout"]) for seen in gateway.seen]
    assert len(budgets) == 4
    assert budgets == sorted(budgets, reverse=True) and budgets[3] <= budgets[0] - 0.3
    assert len({seen.headers["x-request-id"] for seen in gateway.seen}) == 4


def test_retries_end(ask: Ask, gateway: ScriptedGateway) -> None:
    full = refuses(429, "overloaded", "30 s are queued", retryable=True, retry_after="0.01")
    gateway.script.extend([full] * 9)
    with pytest.raises(Overloaded, match="30 s are queued") as caught:
        ask(lambda c: c.encode(M, "7"), retries=2)
    assert caught.value.retry_after_s == 0.01
    assert len(gateway.seen) == 3


def test_a_wait_beyond_the_deadline_is_not_begun(ask: Ask, gateway: ScriptedGateway) -> None:
    gateway.script.append(refuses(429, "overloaded", "full", retryable=True, retry_after="60"))
    began = time.monotonic()
    with pytest.raises(Overloaded):
        ask(lambda c: c.encode(M, "7"), timeout_s=50)
    assert time.monotonic() - began < 25


@pytest.mark.parametrize(
    ("status", "code", "cls"),
    [
        (400, "invalid_request", InvalidRequest),
        (401, "unauthorized", Unauthorized),
        (404, "unknown_model", UnknownModel),
        (502, "model_load_failed", ShoalError),
    ],
)
def test_final_refusals_are_raised_at_once(
    ask: Ask, gateway: ScriptedGateway, status: int, code: str, cls: type[ShoalError]
) -> None:
    gateway.script.append(refuses(status, code, "because", param="p", x_request_id="r1"))
    with pytest.raises(cls, match="because") as caught:
        ask(lambda c: c.encode(M, "7"))
    assert (caught.value.code, caught.value.status, caught.value.param) == (code, status, "p")
    assert caught.value.__notes__ == ["request id: r1"]
    assert len(gateway.seen) == 1


def test_an_unknown_code_keeps_what_the_server_said(ask: Ask, gateway: ScriptedGateway) -> None:
    gateway.script.append(refuses(418, "teapot", "short and stout"))
    with pytest.raises(ShoalError, match="short and stout") as caught:
        ask(lambda c: c.encode(M, "7"))
    assert type(caught.value) is ShoalError
    assert (caught.value.code, caught.value.status) == ("teapot", 418)


def test_an_answer_of_something_else_is_told_as_such(ask: Ask, gateway: ScriptedGateway) -> None:
    gateway.script.append(says(Response(404, b"no such page", {"content-type": "text/plain"})))
    with pytest.raises(NotFound, match="not from a Shoal gateway: no such page"):
        ask(lambda c: c.encode(M, "7"))


def test_a_connection_that_breaks_off_is_retried(ask: Ask, gateway: ScriptedGateway) -> None:
    gateway.script.extend([says(None), says(None)])
    assert ask(lambda c: c.encode(M, "7"))[0] == 7.0
    assert len(gateway.seen) == 3


def test_a_server_that_hangs_up_is_unavailable(ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        calls = []

        def hang_up() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                calls.append(connection.recv(1 << 16))
                connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        port = listener.getsockname()[1]
        with pytest.raises(Unavailable, match="broke off"):
            ask(lambda c: c.encode(M, "7"), f"http://127.0.0.1:{port}", retries=1)
        thread.join(10)
    assert len(calls) == 2


def test_nobody_listening_says_what_to_do(ask: Ask) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(Unavailable, match="is the gateway running"):
            ask(lambda c: c.encode(M, "7"), f"http://127.0.0.1:{port}", retries=1)


def test_the_deadline_bounds_a_slow_answer(ask: Ask, gateway: ScriptedGateway) -> None:
    given_up = threading.Event()

    async def never(seen: Seen) -> Response:
        while not given_up.is_set():
            await asyncio.sleep(0.005)
        return await answer(seen)

    gateway.script.append(never)
    with pytest.raises(DeadlineExceeded, match=r"within 0\.3 s"):
        ask(lambda c: c.encode(M, "7"), timeout_s=0.3)
    given_up.set()
    until(lambda: gateway.at_once == 0)


def _no_vector(text: str) -> dict[str, Any]:
    return {"tokens": 1}


@pytest.mark.parametrize(
    "response",
    [
        Response(200, b"\xc1", {"content-type": MSGPACK}),
        Response(200, b"", {"content-type": MSGPACK}),
        Response(200, b"{}", {"content-type": "application/json"}),
        packed({"items": "no"}),
        packed({"items": []}),
        packed({"items": [_no_vector("7")]}),
        packed({"items": [{"dense": {"dtype": "float32", "shape": [4], "data": b"123"}}]}),
        packed({"items": [{"dense": {"dtype": "bfloat16", "shape": [1], "data": b"12"}}]}),
        packed({"items": [{"dense": {"dtype": "float32", "shape": [-1, -1], "data": b"1234"}}]}),
    ],
)
def test_malformed_answers(ask: Ask, gateway: ScriptedGateway, response: Response) -> None:
    gateway.script.append(says(response))
    with pytest.raises(ProtocolError):
        ask(lambda c: c.encode(M, "7"))
    assert len(gateway.seen) == 1


def test_widths_that_differ_between_requests(ask: Ask, gateway: ScriptedGateway) -> None:
    gateway.script.append(says(packed({"items": [vector("1", dim=3)]})))
    with pytest.raises(ProtocolError, match="differ"):
        ask(lambda c: c.encode(M, ["1", "2"]), limits=Limits(request_items=1, in_flight=1))


def test_a_bad_item_fails_alone(ask: Ask, gateway: ScriptedGateway) -> None:
    bad = item_error("model_output_invalid", "items[1] gave NaN")
    third = packed({"items": [vector("4"), bad]})
    limits = Limits(request_items=2, in_flight=1)
    gateway.script.extend([answer, answer, says(third)])
    texts = [str(n) for n in range(6)]
    encoded = ask(lambda c: c.encode_detailed(M, texts), limits=limits)
    assert encoded.vectors[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert encoded.positions.tolist() == [0, 1, 2, 3, 4]
    assert encoded.tokens.tolist() == [2, 2, 2, 2, 2, 0]
    assert not encoded.truncated.any()
    assert list(encoded.errors) == [5]
    error = encoded.errors[5]
    assert isinstance(error, ModelOutputInvalid)
    assert "items[5] gave NaN" in error.message


def test_encode_raises_the_error_of_an_item(ask: Ask, gateway: ScriptedGateway) -> None:
    bad = item_error("model_output_invalid", "NaN")
    gateway.script.append(says(packed({"items": [vector("1"), bad]})))
    with pytest.raises(ModelOutputInvalid, match=r"^items\[1\]: NaN$") as caught:
        ask(lambda c: c.encode(M, ["1", "2"]))
    assert (caught.value.message, caught.value.param) == (str(caught.value), "items[1]")


def test_all_items_bad(ask: Ask, gateway: ScriptedGateway) -> None:
    gateway.script.append(says(packed({"items": [item_error("compute_failed", "out of memory")]})))
    encoded = ask(lambda c: c.encode_detailed(M, "1"))
    assert (encoded.vectors.shape, list(encoded.errors)) == ((0, 0), [0])


def test_only_items_with_retryable_errors_are_asked_again(
    ask: Ask, gateway: ScriptedGateway
) -> None:
    lost = item_error("unavailable", "the worker is gone", retryable=True)
    bad = item_error("compute_failed", "out of memory")
    gateway.script.append(says(packed({"items": [vector("0"), lost, bad, lost]})))
    gateway.script.append(refuses(503, "unavailable", "away", retryable=True, retry_after="0"))
    encoded = ask(lambda c: c.encode_detailed(M, ["0", "1", "2", "3"]))
    assert encoded.vectors[:, 0].tolist() == [0, 1, 3]
    assert encoded.positions.tolist() == [0, 1, 3]
    assert [seen.body["items"] for seen in gateway.seen[1:]] == [["1", "3"]] * 2


def test_an_error_of_a_later_request_names_the_callers_item(
    ask: Ask, gateway: ScriptedGateway
) -> None:
    refusal = refuses(400, "invalid_item", "items[1] has no text", param="items[1].text")
    gateway.script.extend([answer, refusal])
    with pytest.raises(InvalidItem, match=r"^items\[3\] has no text$") as caught:
        ask(
            lambda c: c.encode(M, ["0", "1", "2", "3"]), limits=Limits(request_items=2, in_flight=1)
        )
    assert caught.value.param == "items[3].text"


ALONE = Limits(request_items=1, in_flight=1)


def refused_item(
    code: str, message: str, status: int = 400, param: str | None = "items[0]"
) -> Step:
    return refuses(status, code, message, param=param)


def test_an_item_in_a_request_of_its_own_fails_alone_too(
    ask: Ask, gateway: ScriptedGateway
) -> None:
    """Large items go alone: whether one of them spoils a call must not depend on its size."""
    damaged = refused_item("invalid_item", "this image is damaged")
    large = refused_item("payload_too_large", "the body has 9 bytes", 413, None)
    gateway.script.extend([answer, damaged, answer, large, answer])
    texts = [str(n) for n in range(5)]
    encoded = ask(lambda c: c.encode_detailed(M, texts), limits=ALONE)
    assert encoded.positions.tolist() == [0, 2, 4]
    assert {n: (type(e), e.message, e.param) for n, e in encoded.errors.items()} == {
        1: (InvalidItem, "items[1]: this image is damaged", "items[1]"),
        3: (PayloadTooLarge, "items[3]: the body has 9 bytes", "items[3]"),
    }
    gateway.script.extend([answer, damaged])
    with pytest.raises(InvalidItem, match=r"^items\[1\]: this image is damaged$"):
        ask(lambda c: c.encode(M, texts), limits=ALONE)


def test_an_item_for_whose_sake_a_request_is_refused_costs_the_others_nothing(
    ask: Ask, gateway: ScriptedGateway
) -> None:
    gateway.script.append(
        refused_item("payload_too_large", "items[1] has 9 bytes", 413, "items[1]")
    )
    gateway.script.append(
        refused_item("invalid_item", "items[2] must be a string", 400, "items[2]")
    )
    encoded = ask(lambda c: c.encode_detailed(M, ["0", "1", "2", "3"]))
    assert encoded.positions.tolist() == [0, 2]
    assert encoded.errors[1].message == "items[1] has 9 bytes"
    assert encoded.errors[3].message == "items[3] must be a string"
    assert [seen.body["items"] for seen in gateway.seen] == [
        ["0", "1", "2", "3"],
        ["0", "2", "3"],
        ["0", "2"],
    ]
    assert len({seen.headers["x-request-id"] for seen in gateway.seen}) == 3


def test_where_all_items_of_a_request_fail_each_has_its_error(
    ask: Ask, gateway: ScriptedGateway
) -> None:
    bad = [item_error("too_many_tokens", "402 tokens"), item_error("invalid_item", "it is empty")]
    first = {"code": "too_many_tokens", "message": "402 tokens", "param": "items[0]"}
    gateway.script.extend([answer, says(packed({"error": first, "items": bad}, 400)), answer])
    limits = Limits(request_items=2, in_flight=1)
    encoded = ask(lambda c: c.encode_detailed(M, [str(n) for n in range(6)]), limits=limits)
    assert encoded.positions.tolist() == [0, 1, 4, 5]
    assert [e.message for e in encoded.errors.values()] == [
        "items[2]: 402 tokens",
        "items[3]: it is empty",
    ]
    assert len(gateway.seen) == 3


def test_what_is_no_items_fault_is_raised(ask: Ask, gateway: ScriptedGateway) -> None:
    gateway.script.extend([answer, refused_item("invalid_request", "no", 400, "params.labels")])
    with pytest.raises(InvalidRequest, match=r"^no$") as caught:
        ask(lambda c: c.encode_detailed(M, ["0", "1"]), limits=ALONE)
    assert caught.value.param == "params.labels"


def test_why_a_request_is_sent_again_is_told(ask: Ask, gateway: ScriptedGateway) -> None:
    told: list[tuple[str, float]] = []
    gateway.script.append(refuses(429, "overloaded", "full", retryable=True, retry_after="0.1"))
    ask(
        lambda c: c.encode(M, "7"),
        on_retry=lambda error, wait_s: told.append((error.message, wait_s)),
    )
    ((message, wait_s),) = told
    assert message == "full"
    assert 0.1 <= wait_s < 0.2


def test_one_failed_request_ends_a_large_call(ask: Ask, gateway: ScriptedGateway) -> None:
    gateway.script.append(refuses(401, "unauthorized", "no key"))
    with pytest.raises(Unauthorized):
        ask(
            lambda c: c.encode(M, [str(n) for n in range(1000)]),
            limits=Limits(request_items=1, in_flight=2),
        )
    assert len(gateway.seen) < 100


HOLDS_ITSELF: dict[str, Any] = {}
HOLDS_ITSELF["a"] = HOLDS_ITSELF


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"labels": ["\ud800"]}, "surrogates not allowed"),
        ({"schema": HOLDS_ITSELF}, "recursion"),
    ],
)
def test_options_that_cannot_be_sent_are_told(
    ask: Ask, gateway: ScriptedGateway, options: dict[str, Any], what: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"the options cannot be sent: .*{what}"):
        ask(lambda c: c.extract(M, ["a"], **options))
    assert gateway.seen == []


@pytest.mark.parametrize(
    ("texts", "what"),
    [
        (["0", "a\ud800"], r"items\[1\] is not valid Unicode: a lone surrogate at character 1"),
        ([1, 2], r"items\[0\] is of type int.*goes inside a list"),
        (["0", None], r"items\[1\] is of type NoneType"),
        (["0", {"a": 1}], r"items\[1\] is of type dict"),
        ([[1.5]], r"items\[0\] is of type list"),
    ],
)
def test_bad_texts_are_told_before_anything_is_sent(
    ask: Ask, gateway: ScriptedGateway, texts: list[Any], what: str
) -> None:
    with pytest.raises(InvalidItem, match=what):
        ask(lambda c: c.encode(M, texts))
    assert gateway.seen == []


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://host", "http://", "http://h:port"])
def test_a_url_that_cannot_work(ask: Ask, url: str) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        ask(lambda c: c.ready(), url)


def test_settings_out_of_range(ask: Ask) -> None:
    with pytest.raises(ConfigError, match="timeout_s"):
        ask(lambda c: c.ready(), timeout_s=0)
    with pytest.raises(ConfigError, match="at least 1"):
        Limits(in_flight=0)
    with pytest.raises(ConfigError, match="timeout_s is '60'"):
        ask(lambda c: c.ready(), timeout_s="60")
    with pytest.raises(ConfigError, match=r"retries is 1\.5"):
        ask(lambda c: c.ready(), retries=1.5)
    with pytest.raises(ConfigError, match="whole number"):
        Limits(request_bytes="64")  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["", 5, None, "a\ud800"])
def test_what_is_no_name_of_a_model_is_told(ask: Ask, gateway: ScriptedGateway, model: Any) -> None:
    for call in (lambda c: c.encode(model, "x"), lambda c: c.model(model)):
        with pytest.raises(InvalidRequest, match="name") as caught:
            ask(call)
        assert caught.value.param == "model"
    assert gateway.seen == []


@pytest.mark.parametrize(
    ("argument", "value", "says"),
    [
        ("dimensions", "x", "dimensions is 'x': Expected `int | None`, got `str`"),
        ("dtype", "float64", "float64.*it can be float32, float16, int8, uint8, binary"),
        ("outputs", 5, "array"),
        ("normalize", "yes", "bool"),
        ("prompt", ["query"], "str"),
        ("priority", "high", "int"),
        ("user", 7, "str"),
    ],
)
def test_an_argument_of_another_type_is_named(
    ask: Ask, gateway: ScriptedGateway, argument: str, value: Any, says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says) as caught:
        ask(lambda c: c.encode_detailed(M, ["1"], **{argument: value}))
    assert caught.value.param == argument
    assert gateway.seen == []


@pytest.mark.parametrize(
    ("argument", "value"),
    [("labels", [object()]), ("threshold", "high"), ("schema", "{}"), ("language", 7)],
)
def test_so_is_one_of_extract(
    ask: Ask, gateway: ScriptedGateway, argument: str, value: Any
) -> None:
    with pytest.raises(InvalidRequest, match=argument) as caught:
        ask(lambda c: c.extract(M, ["1"], **{argument: value}))
    assert caught.value.param == argument
    with pytest.raises(InvalidRequest, match=r"document_tokens is 1\.5"):
        ask(lambda c: c.score(M, "q", ["1"], document_tokens=1.5))
    assert gateway.seen == []


def test_an_argument_that_there_is_not_is_pythons_own_error(ask: Ask) -> None:
    with pytest.raises(TypeError, match=r"encode\(\) has no argument 'dimension'.*'dimensions'"):
        ask(lambda c: c.encode(M, ["1"], dimension=8))


def test_numbers_of_numpy_are_numbers(ask: Ask, gateway: ScriptedGateway) -> None:
    ask(lambda c: c.encode(M, ["1"], dimensions=np.int64(2), normalize=np.bool_(True)))
    ask(lambda c: c.extract(M, ["1"], labels=np.array(["a", "b"]), threshold=np.float32(0.5)))
    encoded, extracted = (seen.body["params"] for seen in gateway.seen)
    assert (encoded["dimensions"], encoded["normalize"]) == (2, True)
    assert (extracted["labels"], extracted["threshold"]) == (["a", "b"], 0.5)


@pytest.mark.parametrize("items", [5, None, 1.5, {"a": 1}, {"a"}])
def test_what_is_no_list_of_items_is_told(ask: Ask, gateway: ScriptedGateway, items: Any) -> None:
    with pytest.raises(InvalidRequest, match=f"are of type {type(items).__name__}") as caught:
        ask(lambda c: c.encode(M, items))
    assert caught.value.param == "items"
    assert gateway.seen == []


def test_items_may_come_from_a_generator(ask: Ask) -> None:
    assert ask(lambda c: c.encode(M, (str(n) for n in range(3))))[:, 0].tolist() == [0, 1, 2]


def _json(text: str, status: int = 200) -> Response:
    return Response(status, text.encode(), {"content-type": "application/json"})


def test_models(ask: Ask, gateway: ScriptedGateway) -> None:
    one = '{"id": "org/m", "object": "model", "created": 0, "dims": {"encode": 384}}'
    gateway.script.append(says(_json(f'{{"object": "list", "data": [{one}]}}')))
    assert [model.id for model in ask(lambda c: c.models())] == ["org/m"]
    gateway.script.append(says(_json(one)))
    assert ask(lambda c: c.model("org/m")).dims == {"encode": 384}
    assert [seen.path for seen in gateway.seen] == ["/v1/models", "/v1/models/org/m"]


def test_models_in_openais_error_shape(ask: Ask, gateway: ScriptedGateway) -> None:
    error = '{"error": {"message": "no", "type": "t", "param": null, "code": "unknown_model"}}'
    gateway.script.append(says(_json(error, 404)))
    with pytest.raises(UnknownModel):
        ask(lambda c: c.model("m"))
    gateway.script.append(says(_json(error.replace("unknown_model", "unavailable"), 503)))
    gateway.script.append(says(_json('{"data": []}')))
    assert ask(lambda c: c.models()) == []


def test_malformed_models(ask: Ask, gateway: ScriptedGateway) -> None:
    gateway.script.append(says(_json("[")))
    with pytest.raises(ProtocolError, match="GET /v1/models"):
        ask(lambda c: c.models())


def test_readiness(ask: Ask, gateway: ScriptedGateway) -> None:
    gateway.script.append(says(_json("{}")))
    assert ask(lambda c: c.ready()) is True
    gateway.script.append(says(_json('{"ready": false}', 503)))
    assert ask(lambda c: c.ready()) is False
    gateway.script.append(says(_json("{}")))
    assert ask(lambda c: c.health()) is True
    assert ask(lambda c: c.health(), "http://127.0.0.1:1") is False
    gateway.script.append(says(_json("{}", 404)))
    with pytest.raises(NotFound):
        ask(lambda c: c.ready())
    assert {seen.path for seen in gateway.seen} == {"/readyz", "/healthz"}


def test_threads_share_a_client(gateway: ScriptedGateway) -> None:
    with shoal.Client(gateway.url) as client:
        got: dict[int, list[float]] = {}

        def work(n: int) -> None:
            got[n] = [float(client.encode(M, str(n * 100 + i))[0]) for i in range(20)]

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert got == {n: [float(n * 100 + i) for i in range(20)] for n in range(8)}


def test_an_answer_that_drips_is_bounded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = threading.Event()

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
                try:
                    while not ended.wait(0.05):
                        connection.sendall(b"x")
                except OSError:
                    pass

        thread = threading.Thread(target=drip)
        thread.start()
        with (
            shoal.Client(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_s=0.3) as client,
            pytest.raises(DeadlineExceeded),
        ):
            client.encode(M, "7")
        ended.set()
        thread.join(10)


async def test_an_abandoned_call_ends_its_requests(gateway: ScriptedGateway) -> None:
    ended = threading.Event()

    async def never(seen: Seen) -> Response:
        while not ended.is_set():
            await asyncio.sleep(0.01)
        return await answer(seen)

    gateway.script.extend([never, never])
    async with shoal.AsyncClient(gateway.url, limits=Limits(request_items=1)) as client:
        task = asyncio.create_task(client.encode(M, ["1", "2"]))
        while len(gateway.seen) < 2:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    ended.set()
