"""The order in which virtual time lets things happen."""

import random

from shoal.sim.clock import Clock, Link


def test_calls_come_in_order_of_time_then_of_asking() -> None:
    clock, heard = Clock(), list[str]()
    for after_s, name in ((2.0, "late"), (1.0, "first"), (1.0, "second")):
        clock.after(after_s, heard.append, name)
    clock.run(1.5)
    assert (heard, clock.now) == (["first", "second"], 1.5)
    clock.run(3.0)
    assert heard[2:] == ["late"]


def test_what_is_to_come_soon_comes_after_all_else_of_that_time_and_before_what_is_later() -> None:
    clock, heard = Clock(), list[tuple[str, float]]()

    def hear(name: str) -> None:
        heard.append((name, clock.now))

    def first() -> None:
        clock.soon(lambda: hear("soon"))
        clock.at(clock.now, hear, "then")
        hear("first")

    clock.soon(lambda: hear("at once"))
    clock.after(1.0, first)
    clock.after(1.0, hear, "second")
    clock.after(1.5, hear, "later")
    clock.run(2.0)
    same = [(name, 1.0) for name in ("first", "second", "then", "soon")]
    assert heard == [("at once", 0.0), *same, ("later", 1.5)]


def test_what_is_sent_first_arrives_first_and_none_before_the_least_time() -> None:
    clock, arrived = Clock(), list[tuple[int, float]]()
    link = Link(clock, random.Random(1), 0.2, 0.3)
    for number in range(100):
        link.send(lambda number: arrived.append((number, clock.now)), number)
    clock.run(100.0)
    assert [number for number, _ in arrived] == list(range(100))
    assert arrived[0][1] >= 0.2
