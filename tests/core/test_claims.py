"""Claims: asked, renewed, kept until all have heard, and never waited for without an end."""

from shoal.core.claims import ANSWER_S, LINGER_S, RENEW_S, TTL_S, Claims
from shoal.core.events import Claim, Unclaim


def test_asked_once_and_held_once_granted() -> None:
    claims = Claims()
    assert claims.ask("m", 0.0) == [Claim("m", TTL_S)]
    assert claims.ask("m", 0.1) == []
    assert (claims.asked("m"), claims.holds("m")) == (True, False)
    assert claims.granted("m") == []
    assert claims.holds("m")


def test_an_ask_without_an_answer_counts_as_refused() -> None:
    claims = Claims()
    claims.ask("m", 0.0)
    assert claims.next_wake() == ANSWER_S
    assert claims.due(ANSWER_S) == []
    assert not claims.asked("m")
    assert claims.granted("m") == [Unclaim("m")]  # it came too late


def test_renewed_while_held_and_lost_when_that_is_refused() -> None:
    claims = Claims()
    claims.ask("m", 0.0)
    claims.granted("m")
    assert claims.due(RENEW_S - 0.1) == []
    assert claims.due(RENEW_S) == [Claim("m", TTL_S)]
    assert claims.due(RENEW_S + 0.1) == []
    claims.refused("m")
    assert not claims.holds("m")


def test_kept_until_every_peer_has_heard_of_the_change() -> None:
    claims = Claims()
    claims.ask("m", 0.0)
    claims.granted("m")
    assert claims.release("m", 1.0, linger=True) == []
    assert claims.next_wake() == 1.0 + LINGER_S
    assert claims.due(1.0 + LINGER_S) == [Unclaim("m")]
    assert claims.next_wake() is None


def test_one_that_lingers_is_simply_kept_when_it_is_wanted_again() -> None:
    claims = Claims()
    claims.ask("m", 0.0)
    claims.granted("m")
    claims.release("m", 1.0, linger=True)
    assert claims.ask("m", 1.5) == []
    assert claims.holds("m")
    assert claims.due(1.0 + LINGER_S) == []


def test_a_change_that_was_called_off_frees_it_at_once() -> None:
    claims = Claims()
    claims.ask("m", 0.0)
    assert claims.release("m", 0.1, linger=False) == []  # not granted yet
    assert claims.granted("m") == [Unclaim("m")]
    claims.ask("n", 1.0)
    claims.granted("n")
    assert claims.release("n", 1.1, linger=False) == [Unclaim("n")]
    assert claims.release("n", 1.2, linger=False) == []


def test_a_worker_that_leaves_gives_up_all_that_it_has() -> None:
    claims = Claims()
    for name in ("a", "b"):
        claims.ask(name, 0.0)
    claims.granted("a")
    assert claims.release_all() == [Unclaim("a")]
    assert claims.granted("b") == [Unclaim("b")]


def test_one_that_ended_while_the_worker_was_stopped_is_not_taken_for_its_own() -> None:
    claims = Claims()
    claims.ask("m", 0.0)
    claims.granted("m")
    assert claims.due(TTL_S) == []
    assert not claims.asked("m")
    claims.ask("n", 0.0)
    claims.granted("n")  # heard only now
    assert claims.due(TTL_S) == []
    assert not claims.holds("n")
