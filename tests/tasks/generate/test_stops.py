from hypothesis import given
from hypothesis import strategies as st

from shoal.tasks.generate.stops import Stops

texts = st.text("ab", max_size=12)


def fed(stops: list[str], pieces: list[str]) -> tuple[str, bool]:
    looking = Stops(stops)
    out = "".join(looking.feed(piece) for piece in pieces)
    return out + looking.end(), looking.found


def test_a_stop_is_cut_out_though_it_comes_in_pieces() -> None:
    assert fed(["END"], ["a cat E", "N", "D and more"]) == ("a cat ", True)
    assert fed(["\n\n", "END"], ["one\n", "two E", "ND"]) == ("one\ntwo ", True)
    assert fed(["END"], ["a cat E", "N"]) == ("a cat EN", False)
    assert fed([], ["a", "b"]) == ("ab", False)


def test_no_more_is_held_back_than_may_become_a_stop() -> None:
    looking = Stops(["END", "NDA"])
    assert looking.feed("SEN") == "S"
    assert looking.feed("T") == "ENT"
    assert looking.feed("N") == ""
    assert looking.feed("Do") == "NDo"


def test_of_several_the_first_complete_one_counts() -> None:
    assert fed(["abcd", "bc"], ["xabcd"]) == ("xa", True)
    assert fed(["b", "ab"], ["xab"]) == ("x", True)


@given(st.lists(texts, max_size=6), st.lists(texts.filter(bool), max_size=3))
def test_pieces_change_nothing(pieces: list[str], stops: list[str]) -> None:
    whole = "".join(pieces)
    assert fed(stops, pieces) == fed(stops, [whole]) == fed(stops, list(whole))
    out, found = fed(stops, pieces)
    assert found == any(stop in whole for stop in stops)
    assert whole.startswith(out) and not any(stop in out for stop in stops)
