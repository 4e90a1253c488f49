from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shoal.errors import ComputeFailed, InvalidRequest
from shoal.runtimes.sglang.answers import Answer, Text, read
from shoal.wire.arrays import from_wire
from shoal.wire.socket import Sampling

LENGTH = {"type": "length", "length": 4}


def answer(ids: list[int], count: int, finish: Any = None, **meta: Any) -> Answer:
    """As it comes over the wire."""
    told = {"finish_reason": finish, "completion_tokens": count, "prompt_tokens": 3, **meta}
    event = b"data: " + msgspec.json.encode({"text": None, "output_ids": ids, "meta_info": told})
    found = read(event)
    assert found is not None
    return found


def tokens_of(text: Text, *answers: Answer) -> tuple[list[int], str | None]:
    tokens, finish = [], None
    for each in answers:
        more = text.more(each)
        finish = more.finish
        if more.chunk is not None:
            tokens += from_wire(more.chunk.tokens).tolist()
    return tokens, finish


def test_cumulative_and_disjoint_answers_are_the_same_text() -> None:
    cumulative = [answer([7], 1), answer([7, 8, 9], 3), answer([7, 8, 9, 10], 4, LENGTH)]
    disjoint = [answer([7], 1), answer([8, 9], 3), answer([10], 4, LENGTH)]
    for answers in (cumulative, disjoint):
        text = Text(1, Sampling(4))
        assert tokens_of(text, *answers) == ([7, 8, 9, 10], "length")
        assert text.new_tokens == 4


def test_an_answer_that_is_ahead_of_its_count() -> None:
    """Lists are shared inside the server, so that one may be longer than when it was counted."""
    text = Text(1, Sampling(4))
    answers = [answer([7, 8], 1), answer([7, 8], 2), answer([7, 8, 9], 3, LENGTH)]
    assert tokens_of(text, *answers) == ([7, 8, 9], "length")


def test_an_answer_again() -> None:
    text = Text(1, Sampling(4))
    assert tokens_of(text, answer([7], 1), answer([7], 1)) == ([7], None)


@pytest.mark.parametrize("finish", [None, LENGTH, {"type": "stop", "matched": 9}])
def test_the_first_id_that_ends_it_ends_it(finish: Any) -> None:
    text = Text(1, Sampling(9, stop=[9]))
    assert tokens_of(text, answer([7, 9, 8], 3, finish)) == ([7], "stop")
    assert text.new_tokens == 2


def test_an_end_of_the_models_own_is_no_part_of_it() -> None:
    text = Text(1, Sampling(9, stop=[9]))
    assert tokens_of(text, answer([7, 2], 2, {"type": "stop", "matched": 2})) == ([7], "stop")
    assert text.new_tokens == 2


def test_a_grammar_may_end_with_an_id_of_its_text() -> None:
    text = Text(1, Sampling(9, stop=[9], grammar=("regex", "a")))
    assert tokens_of(text, answer([7, 8], 2, {"type": "stop", "matched": 8})) == ([7, 8], "stop")


def test_likelihoods_count_where_there_are_fewer_than_ids() -> None:
    text = Text(1, Sampling(4, logprobs=1))
    own = [[-0.5, 7, None], [None, 8, None]]
    top = [[[-0.5, 7, None]], [[-0.25, 9, None]]]
    told = {"output_token_logprobs": own, "output_top_logprobs": top}
    chunk = text.more(answer([7, 8, 9], 2, **told)).chunk
    assert chunk is not None
    assert chunk.logprobs is not None
    assert chunk.top_ids is not None
    assert from_wire(chunk.tokens).tolist() == [7, 8]
    assert from_wire(chunk.logprobs).tolist() == [-0.5, -9999.0]
    assert from_wire(chunk.top_ids).tolist() == [[7], [9]]


def test_likelihoods_that_are_not_there() -> None:
    text = Text(1, Sampling(4, logprobs=2))
    own = {"output_token_logprobs": [[-0.5, 7, None]], "output_top_logprobs": [None]}
    with pytest.raises(ComputeFailed, match="likelihoods"):
        text.more(answer([7], 1, **own))


def test_no_ids() -> None:
    with pytest.raises(ComputeFailed, match="no output_ids"):
        Text(1, Sampling(4)).more(Answer())


def test_what_was_computed_before() -> None:
    text = Text(1, Sampling(4))
    text.more(answer([7], 1, cached_tokens=2))
    assert text.cached_tokens == 2


def test_the_end_and_what_is_no_event() -> None:
    assert read(b"data: [DONE]") is None
    for event in (
        b'data: {"output_ids": [1,',
        b"<html>",
        b'data: {"output_ids": "x"}',
        b'data: {"output_ids": [2147483648]}',
        b'data: {"meta_info": {"output_token_logprobs": [[-0.5, -1, null]]}}',
    ):
        with pytest.raises(ComputeFailed, match="no answer of a text"):
            read(event)


@pytest.mark.parametrize(
    ("finish", "kind"),
    [
        ({"type": "abort", "message": "bad", "status_code": 400, "err_type": "B"}, InvalidRequest),
        ({"type": "abort", "message": "bad", "status_code": 500, "err_type": None}, ComputeFailed),
        ({"type": "abort", "message": None, "status_code": None, "err_type": None}, ComputeFailed),
        ({"type": "stop", "matched": 2}, type(None)),
        (None, type(None)),
    ],
)
def test_whose_fault_it_was(finish: Any, kind: type) -> None:
    assert type(answer([], 0, finish).failure()) is kind


def test_an_error_inside_the_stream_is_the_callers() -> None:
    found = read(b'data: {"error": {"message": "top_p must be in (0, 1], got 2."}}')
    assert found is not None
    failure = found.failure()
    assert isinstance(failure, InvalidRequest)
    assert failure.message == "SGLang: top_p must be in (0, 1], got 2."


def test_an_error_inside_the_stream_may_be_the_servers() -> None:
    found = read(
        b'data: {"error": {"message": "lost", "type": "x", "code": 503, "retryable": true}}'
    )
    assert found is not None
    assert type(found.failure()) is ComputeFailed
