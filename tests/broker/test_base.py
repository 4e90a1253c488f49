"""Ack subjects."""

import pytest

from shoal.broker.base import Delivery, delivery
from shoal.errors import ProtocolError

NANOSECONDS = 1_795_974_486_722_680_509


@pytest.mark.parametrize(
    "ack",
    [
        f"$JS.ACK.shoal-work.p=m.2.11.12.{NANOSECONDS}.7",
        f"$JS.ACK.hub.ACCOUNT.shoal-work.p=m.2.11.12.{NANOSECONDS}.7",
        f"$JS.ACK._.ACCOUNT.shoal-work.p=m.2.11.12.{NANOSECONDS}.7.Zq1x",
    ],
)
def test_both_forms_of_an_ack_subject_are_read(ack: str) -> None:
    assert delivery(b"x", ack) == Delivery(b"x", ack, 2, 11, NANOSECONDS / 1e9, 7)


@pytest.mark.parametrize(
    "ack",
    [
        "",
        "shoal.work.p.m",
        "$JS.ACK.a.b.1.2.3",
        "$JS.ACK.s.c.one.2.3.4.5",
        "$JS.ACK.d.s.c.1.2.3.4.5",
    ],
)
def test_anything_else_is_refused(ack: str) -> None:
    with pytest.raises(ProtocolError, match="not a JetStream ack subject"):
        delivery(b"", ack)
