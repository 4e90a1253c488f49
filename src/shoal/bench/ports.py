"""Ports of this machine for servers that benchmarks start."""

from __future__ import annotations

import contextlib
import random
import socket

#: Linux gives ports from 32768 on to connections that go out: one of those, free a moment ago, is
#: often gone when a server has started at last.
_FIRST, _LAST = 10_000, 32_000


def free_ports(count: int) -> range:
    """So many ports in a row that nobody listened on a moment ago."""
    while True:
        first = random.randrange(_FIRST, _LAST - count)
        ports = range(first, first + count)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in ports:
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return ports


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]
