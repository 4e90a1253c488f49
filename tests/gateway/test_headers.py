import pytest

from shoal.gateway.headers import accepts_msgpack, by_name


def test_space_behind_a_value_is_no_part_of_it() -> None:
    headers = [(b"x-user", b"ann \t"), (b"x-class", b"work")]
    assert by_name(headers) == {b"x-user": b"ann", b"x-class": b"work"}


def test_a_header_that_comes_twice_has_both_values() -> None:
    headers = [(b"x-class", b"work "), (b"x-user", b"ann"), (b"x-class", b"bulk")]
    assert by_name(headers) == {b"x-class": b"work, bulk", b"x-user": b"ann"}


@pytest.mark.parametrize(
    ("accept", "sent_json", "sent_msgpack"),
    [
        (b"", False, True),
        (b"*/*", False, True),
        (b"application/*", False, True),
        (b"application/json", False, False),
        (b"application/json, */*", False, False),
        (b"application/msgpack", True, True),
        (b"application/msgpack, */*", True, True),
        (b"application/msgpack, application/json", True, True),
        (b"application/json, application/x-msgpack;q=0.5", False, False),
        (b"application/json;q=0.4, application/vnd.msgpack; Q=0.5", True, True),
        (b"application/msgpack;q=0", False, False),
        (b"application/msgpack;q=0, */*", False, False),
        (b"application/json;q=0, */*;q=0.1", True, True),
        (b"application/msgpack;q=much", True, True),
        (b"text/html", False, False),
        (b"text/html, */*;q=0.8", False, True),
    ],
)
def test_the_greater_weight_decides_what_is_answered(
    accept: bytes, sent_json: bool, sent_msgpack: bool
) -> None:
    assert accepts_msgpack(accept, False) == sent_json
    assert accepts_msgpack(accept, True) == sent_msgpack
