from shoal.gateway.headers import by_name


def test_space_behind_a_value_is_no_part_of_it() -> None:
    headers = [(b"x-user", b"ann \t"), (b"x-class", b"work")]
    assert by_name(headers) == {b"x-user": b"ann", b"x-class": b"work"}


def test_a_header_that_comes_twice_has_both_values() -> None:
    headers = [(b"x-class", b"work "), (b"x-user", b"ann"), (b"x-class", b"bulk")]
    assert by_name(headers) == {b"x-class": b"work, bulk", b"x-user": b"ann"}
