import pytest

from shoal.spelling import closest, nearest

MODELS = [
    "all-MiniLM-L6-v2",
    "e5-small",
    "whisper-small",
    "bge-small-en-v1.5",
    "clip-vit-base",
    "tiny",
]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("all-minilm-l6", "all-MiniLM-L6-v2"),
        ("whisper-smal", "whisper-small"),
        ("clip", "clip-vit-base"),  # few letters of it, and all of what was asked
        ("tyni", "tiny"),
        ("hello", None),
        ("gpt-4o", None),
        ("", None),
        ("v", None),
        ("x" * 10_000, None),
    ],
)
def test_only_what_is_near_is_suggested(word: str, meant: str | None) -> None:
    assert closest(word, MODELS) == meant
    assert nearest(word, MODELS) == ("" if meant is None else f" (did you mean '{meant}'?)")


def test_comparing_many_long_names_is_not_worth_a_hint() -> None:
    names = [f"{n:0200b}" for n in range(100)]
    assert closest(f"{1:0200b}", names[:4]) == names[1]
    assert closest(f"{1:0200b}", names) is None
    assert closest("tyni", ["tiny", "x" * 1_000_000]) == "tiny"
