from __future__ import annotations

from typing import Any

import pytest

from shoal.catalog.card import Card, Memory, Source
from shoal.catalog.search import Criteria, gives, kinds, search, why_none
from shoal.catalog.tasks import Dense, EncodeTask, ExtractTask, ScoreTask, Sparse, Tasks

DENSE = Tasks(encode=EncodeTask(dense=Dense(8)))


def card(name: str, size: float | None = None, tasks: Tasks = DENSE, **said: Any) -> Card:
    return Card(
        name=name,
        source=Source(hub=f"org/{name}"),
        family=said.pop("family", "bert"),
        tasks=tasks,
        max_tokens=8,
        memory=Memory(weights_mb=size),
        **said,
    )


CARDS = [
    card("english", 90, languages=["en"], license="apache-2.0", description="Fast and small."),
    card("german", 40, languages=["de"], license="cc-by-nc-4.0", family="t5"),
    card("everywhere", 2000, languages=["multilingual"], license="mit"),
    card("chinese", 100, languages=["zh-hant", "pt"], license="cc-by-4.0", aliases=["org/zh"]),
    card("unknown"),
    card("judge", 60, Tasks(score=ScoreTask(head="cross-encoder")), license="MIT"),
    card("tagger", 70, Tasks(extract=ExtractTask(head="token-labels")), family="distilbert"),
    card("terms", 80, Tasks(encode=EncodeTask(sparse=Sparse()))),
]


def names(**criteria: Any) -> list[str]:
    return [found.name for found in search(CARDS, Criteria(**criteria))]


def test_all_of_them_the_smallest_first_and_unknown_sizes_last() -> None:
    sizes = [found.memory.weights_mb for found in search(CARDS, Criteria())]
    assert sizes == [40, 60, 70, 80, 90, 100, 2000, None]


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("encode", ["german", "terms", "english", "chinese", "everywhere", "unknown"]),
        ("dense", ["german", "english", "chinese", "everywhere", "unknown"]),
        ("SPARSE", ["terms"]),
        ("score", ["judge"]),
        ("cross-encoder", ["judge"]),
        ("token-labels", ["tagger"]),
        ("dens", []),
    ],
)
def test_a_task_what_it_gives_or_its_head(task: str, expected: list[str]) -> None:
    assert names(task=task) == expected


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("de", ["german", "everywhere"]),
        ("DE-at", ["german", "everywhere"]),
        ("zh", ["chinese", "everywhere"]),
        ("zh-hant", ["chinese", "everywhere"]),
        ("zh-hans", ["everywhere"]),
        ("pt-br", ["chinese", "everywhere"]),
        ("z", []),
        ("german", []),
    ],
)
def test_languages_by_the_start_of_their_codes(language: str, expected: list[str]) -> None:
    assert names(language=language) == expected


def test_licences_by_their_start() -> None:
    assert names(license="CC-BY") == ["german", "chinese"]
    assert names(license="mit") == ["judge", "everywhere"]


def test_size_leaves_out_what_states_none() -> None:
    assert names(size_under_mb=70) == ["german", "judge"]
    assert "unknown" not in names(size_under_mb=1e9)


def test_words_stand_in_names_aliases_and_descriptions() -> None:
    assert names(words=("ENG",)) == ["english"]
    assert names(words=("org/zh",)) == ["chinese"]
    assert names(words=("small", "fast")) == ["english"]
    assert names(words=("small", "slow")) == []


def test_all_criteria_together() -> None:
    assert names(task="dense", language="de", license="cc", size_under_mb=50, family="t5") == [
        "german"
    ]
    assert names(family="T5") == ["german"]
    assert names(family="t") == []


def test_kinds_from_the_general_to_the_special() -> None:
    late = card("late", tasks=Tasks(encode=EncodeTask(dense=Dense(8)), score=ScoreTask()))
    assert kinds(late) == ["encode", "dense", "score", "cross-encoder"]
    assert gives(late) == ["dense", "cross-encoder"]
    assert kinds(CARDS[-1]) == ["encode", "sparse"]


@pytest.mark.parametrize(
    ("criteria", "told"),
    [
        ({"task": "dens"}, "has task 'dens' (did you mean 'dense'?)"),
        (
            {"task": "rerank"},
            "'rerank'; there are encode (dense, sparse), extract (token-labels), score (cross-encoder)",
        ),
        ({"language": "german"}, "has language 'german'; languages are codes, such as de"),
        ({"license": "apach3"}, "has license 'apach3' (did you mean 'apache-2.0'?)"),
        ({"family": "birt"}, "has family 'birt' (did you mean 'bert'?)"),
        ({"words": ("germen",)}, "called or described as 'germen' (did you mean 'german'?)"),
        ({"words": ("everywere-v2",)}, "(did you mean 'everywhere'?)"),
        (
            {"task": "token-labels", "family": "t5", "license": "mit"},
            "fits, and none would with one criterion less",
        ),
        (
            {"task": "dense", "size_under_mb": 10},
            "without the size, 5 do: german, english, chinese",
        ),
        ({"words": ("german",), "license": "mit"}, "without the words, 2 do: judge, everywhere"),
    ],
)
def test_who_finds_nothing_is_told_why(criteria: dict[str, Any], told: str) -> None:
    asked = Criteria(**criteria)
    assert not search(CARDS, asked)
    assert told in why_none(CARDS, asked)


def test_an_empty_catalog_says_so() -> None:
    assert why_none([], Criteria(task="dense")) == "the catalog is empty"
