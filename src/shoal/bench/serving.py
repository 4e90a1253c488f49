"""A real `shoal serve` for benchmarks: started on free ports, in a folder of its own, and ended.

It is driven and watched from outside, as an operator would: HTTP, `/metrics`, `/proc`.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec

from shoal.bench.child import Child, answers, without_settings
from shoal.bench.load import Target
from shoal.bench.ports import free_ports
from shoal.bench.processes import by_role


class _State(msgspec.Struct):
    """The part of `shoal serve`'s state file that is of use here."""

    url: str


class Serving(Child):
    """A running `shoal serve`; use it as a context manager.

    Args:
        arguments: models that it keeps, and any flags.
        environment: variables that its processes have beside ours.
        cards: its catalog's files, beside the models that come with Shoal.
        settings: flags by the names of settings.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        cards: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="shoal-bench-")
        self._health_ports = free_ports(int(str(settings.get("workers", 1))))  # one each
        settings |= {"port": 0, "health_port": self._health_ports[0]}
        if cards:
            settings["catalog"] = self._written(cards)
        super().__init__(
            "shoal serve",
            [sys.executable, "-m", "shoal", "serve", *arguments, *_flags(settings)],
            Path(self._home.name) / "serve.log",
            {**without_settings(), "XDG_STATE_HOME": self._home.name, **(environment or {})},
        )
        self.url = ""
        try:
            self.wait_until(self._started)
        except BaseException:
            self.__exit__()
            raise

    def _written(self, cards: Mapping[str, str]) -> Path:
        folder = Path(self._home.name) / "cards"
        folder.mkdir()
        for name, card in cards.items():
            (folder / f"{name}.yaml").write_text(card)
        return folder

    def _started(self) -> bool:
        """Whether it has said where its gateways listen, which it does once all is ready."""
        state = Path(self._home.name) / "shoal" / "running" / f"{self.pid}.json"
        if state.exists() and (data := state.read_bytes()):
            self.url = msgspec.json.decode(data, type=_State).url
        return bool(self.url)

    @property
    def address(self) -> Target:
        """Where its gateways listen, all on the same port."""
        parts = urlsplit(self.url)
        return str(parts.hostname), int(parts.port or 80)

    def roles(self) -> dict[str, list[int]]:
        """Its processes by role."""
        return by_role(self.pid)

    def ready(self) -> bool:
        """Whether a gateway says that requests would be answered."""
        return answers(f"{self.url}/readyz")

    def worker_ready(self) -> bool:
        """Whether its (first) worker says that it would answer."""
        return answers(f"{self.worker_url}/readyz")

    @property
    def worker_url(self) -> str:
        """Where its (first) worker tells how it is."""
        return f"http://127.0.0.1:{self._health_ports[0]}"

    def worker_counters(self) -> dict[str, float]:
        """Sums over all workers and labels of the workers' metrics."""
        return counters(self._health_ports)

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGINT)
        self._home.cleanup()


def _flags(settings: Mapping[str, object]) -> Iterator[str]:
    for name, value in settings.items():
        yield from (f"--{name.replace('_', '-')}", str(value))


def counters(ports: Iterable[int]) -> dict[str, float]:
    """Sums over all labels of the metrics that processes of this machine show at these ports."""
    sums: defaultdict[str, float] = defaultdict(float)
    with httpx.Client(timeout=10) as client:
        for port in ports:
            for name, value in _samples(client.get(f"http://127.0.0.1:{port}/metrics").text):
                sums[name] += value
    return sums


def _samples(text: str) -> Iterator[tuple[str, float]]:
    """Name and value of each sample; a full parser takes a second for some workers."""
    for line in text.splitlines():
        if not line.startswith("#"):
            yield line.partition("{")[0].partition(" ")[0], float(line.rpartition(" ")[2])
