"""Ports of this machine for servers that benchmarks start."""

from __future__ import annotations

import contextlib
import socket


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def free_ports(count: int) -> range:
    """So many ports in a row that nobody listened on a moment ago."""
    while True:
        first = free_port()
        ports = range(first, first + count)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError, OverflowError):
            for port in ports:
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return ports
