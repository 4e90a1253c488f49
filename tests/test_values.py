import pytest

from shoal.values import number, whole_number


@pytest.mark.parametrize(
    "text", ["", " 1", "1\n", "1_0", "１", "nan", "inf", "1e999", "0x1", "1,5", "."]
)
def test_what_only_python_takes_for_a_number_is_none(text: str) -> None:
    assert number(text) is None
    assert whole_number(text) is None


def test_plain_digits_are_numbers() -> None:
    assert [number(text) for text in ("2.5", "-1", "+.5", "5.", "1e3", "007")] == [
        2.5,
        -1.0,
        0.5,
        5.0,
        1000.0,
        7.0,
    ]
    assert [whole_number(text) for text in ("10", "-10", "+3", "1e3", "2.0", "9" * 19)] == [
        10,
        -10,
        3,
        None,
        None,
        None,
    ]
