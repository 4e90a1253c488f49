from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import ProtocolError
from shoal.wire import subjects

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(names)
def test_a_name_comes_back_from_its_token(name: str) -> None:
    assert subjects.name_of(subjects.token(name)) == name


@given(names)
def test_a_token_is_one_token_to_the_broker(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]+", subjects.token(name))


@given(st.text() | st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True))
def test_what_is_no_token_is_refused(text: str) -> None:
    try:
        name = subjects.name_of(text)
    except ProtocolError:
        return
    assert subjects.token(name) == text


@pytest.mark.parametrize("text", ["", "a.b", "a_", "a_2", "_2E", "_61", "_ff", "a\n"])
def test_tokens_that_are_never_made(text: str) -> None:
    with pytest.raises(ProtocolError):
        subjects.name_of(text)


def test_an_empty_name_has_no_token() -> None:
    with pytest.raises(ProtocolError):
        subjects.token("")


def test_the_names_on_the_broker() -> None:
    assert subjects.work_subject("work", "default", "org/m.v1") == "shoal.work.default.org_2fm_2ev1"
    assert subjects.stream_subjects("bulk") == "shoal.bulk.>"
    assert subjects.stream("work") == "shoal-work"
    assert subjects.consumer("gpu", "org/m") == "gpu=org_2fm"
    assert subjects.reply_subject("g.1") == "shoal.reply.g_2e1"
    assert subjects.dead_subject("gpu.1") == "shoal.dead.gpu_2e1"
