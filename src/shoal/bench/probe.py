"""How soon a server answers a small request, asked at a steady rate from a process of its own.

A probe's time counts from the moment at which it was due, so that a server that stalls is not asked
less often for it. ``python -m shoal.bench.probe``; `prober` starts one.
"""

from __future__ import annotations

import asyncio
import time

import msgspec
import uvloop

from shoal.bench.piped import Helper, serve


class Probe(msgspec.Struct, frozen=True):
    """What to ask: `path`, `hz` times a second, over several connections in turn.

    Gateways that share a port each get some of the connections.
    """

    host: str
    port: int
    path: str
    seconds: float
    hz: float = 100.0
    connections: int = 16


class Probed(msgspec.Struct, frozen=True):
    """Seconds each answer took, in order; infinity where none came."""

    seconds: list[float]


def prober() -> Helper[Probe, Probed]:
    """A process that asks."""
    return Helper("shoal.bench.probe", Probed)


class _Connection:
    """One keep-alive connection; one request at a time."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._turn = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, due: float) -> float:
        async with self._turn:
            try:
                await self._exchange()
            except (OSError, asyncio.IncompleteReadError):
                self._streams = None
                return float("inf")
        return time.perf_counter() - due

    async def _exchange(self) -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._probe.host, self._probe.port)
        reader, writer = self._streams
        writer.write(f"GET {self._probe.path} HTTP/1.1\r\nHost: probe\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise OSError(f"{self._probe.path} answered {head[:40]!r}")

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


async def _asked(probe: Probe) -> Probed:
    connections = [_Connection(probe) for _ in range(probe.connections)]
    for connection in connections:
        await connection.ask(0.0)  # connecting is no part of what is measured
    start = time.perf_counter()
    asking = []
    for number in range(int(probe.seconds * probe.hz)):
        due = start + number / probe.hz
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        asking.append(asyncio.create_task(connections[number % len(connections)].ask(due)))
    answers = await asyncio.gather(*asking)
    for connection in connections:
        connection.close()
    return Probed(list(answers))


if __name__ == "__main__":
    serve(Probe, lambda probe: uvloop.run(_asked(probe)))
