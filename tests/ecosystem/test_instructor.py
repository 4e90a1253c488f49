"""Instructor's modes that leave a model no other words than such as fit."""

from __future__ import annotations

import pytest
from openai import OpenAI

from shoal.bench.serving import Serving
from tests.ecosystem.conftest import CHAT, Run
from tests.ecosystem.snippets import KEY, MISSING

instructor = pytest.importorskip("instructor", reason=MISSING)


def test_an_answer_of_a_type(chat: Run) -> None:
    names = chat("instructor")
    assert isinstance(names["weather"], names["Weather"])


def test_by_a_call(chat: Run, serving: Serving) -> None:
    kind = chat("instructor")["Weather"]
    client = instructor.from_openai(
        OpenAI(base_url=f"{serving.url}/v1", api_key=KEY), mode=instructor.Mode.TOOLS
    )
    told = client.create(
        model=CHAT,
        response_model=kind,
        messages=[{"role": "user", "content": "It rains in Bonn."}],
        temperature=0,
        max_tokens=60,
        max_retries=0,
    )
    assert isinstance(told, kind)
