"""A `shoal serve` in a process of its own, for tests that watch and harm it from outside."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tokenizers import Tokenizer, models

CARD = """
name: fake
source: {dir: .}
family: fake
tasks: {encode: {dense: {dim: 8}}}
max_tokens: 512
profiles: {default: {runtime: fake}}
"""
UP_S = 60.0


def until(condition: Callable[[], Any], what: str, within_s: float = 30.0) -> Any:
    """Wait for `condition` to become true; its value."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.02)
    return value


class Serving:
    """What a running `shoal serve` can be asked from outside."""

    def __init__(self, process: subprocess.Popen[bytes], home: Path, log: Path) -> None:
        self.process = process
        self.env = environment(home)
        self._state = home / "shoal" / "running" / f"{process.pid}.json"
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text()

    def up(self) -> dict[str, Any]:
        """Its state file, once it is ready."""

        def ready() -> bool:
            assert self.process.poll() is None, f"it ended:\n{self.log}"
            return self._state.exists() and self._state.stat().st_size > 0

        until(ready, "serve becomes ready", UP_S)
        state: dict[str, Any] = json.loads(self._state.read_text())
        return state

    def announced(self) -> bool:
        return self._state.exists()

    def shoal(self, *args: str) -> str:
        """Run another command beside it."""
        command = [sys.executable, "-m", "shoal", *args]
        return subprocess.run(
            command, env=self.env, check=True, capture_output=True
        ).stdout.decode()

    def answers(self, url: str) -> bool:
        try:
            answer = httpx.post(f"{url}/v1/encode/fake", json={"items": ["a"]}, timeout=30)
        except httpx.TransportError:
            return False
        return answer.status_code == 200

    def signal(self, part: str, number: signal.Signals) -> Callable[[], bool]:
        """To the one process below it whose command has `part`; tells whether another is there for it."""
        pid = self._child(part)
        assert pid, f"{part} runs"  # a signal to 0 goes to the tests themselves
        os.kill(pid, number)
        return lambda: self._child(part) not in (0, pid)

    def _child(self, part: str) -> int:
        found = descendants(self.process.pid)
        return next((pid for pid, command in found.items() if part in command), 0)

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)


@contextmanager
def serve(tmp_path: Path, *args: str) -> Iterator[Serving]:
    """`shoal serve fake` on a free port with a state directory of its own."""
    card = tmp_path / "fake.yaml"
    card.write_text(CARD)
    Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, "[UNK]")).save(
        str(tmp_path / "tokenizer.json")
    )
    command = [sys.executable, "-m", "shoal", "serve", "fake", "--catalog", str(card)]
    log = tmp_path / "serve.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, "--port", "0", *args], stdout=file, stderr=file, env=environment(tmp_path)
        )
    try:
        yield Serving(process, tmp_path, log)
    finally:
        process.kill()
        process.wait()


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    return {**kept, "XDG_STATE_HOME": str(home), "SHOAL_LOG_FORMAT": "text"}


def descendants(pid: int) -> dict[int, str]:
    """Every living process below `pid`, with its command line."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if after_name[0] != "Z":
            parents.setdefault(int(after_name[1]), []).append(int(stat.parent.name))
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child in parents.get(waiting.pop(), []):
            found[child] = command_line(child)
            waiting.append(child)
    return found


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def living(pids: dict[int, str]) -> dict[int, str]:
    """Those of `pids` that still run the same command."""
    return {pid: command for pid, command in pids.items() if command_line(pid) == command != ""}
