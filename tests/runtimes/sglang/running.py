"""An SGLang server for tests, the faithful fake or a real one, and a runtime that it computes for."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np

from shoal.catalog.convert.tensors import stored
from shoal.catalog.convert.writer import write
from shoal.runtimes.check.sample import Sample
from shoal.runtimes.sglang.launched import free_port
from shoal.runtimes.sglang.runtime import SGLangRuntime
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.socket import Chunk, Failed, Generate, Generated, Load, Sampling
from tests.runtimes.sglang import server
from tests.worker.text.chats import QWEN, of_bytes

SCRIPT = Path(server.__file__)
#: A server that runs: the tests of the contract are run against it too.
REAL = os.environ.get("SHOAL_SGLANG_URL")
#: A folder with a LoRA of its model.
REAL_ADAPTER = os.environ.get("SHOAL_SGLANG_ADAPTER")
PROMPT = [5, 6, 7, 8]
GREEDY = Sampling(8, temperature=0.0)
#: A real server may run on a CPU.
DEADLINE_S = 30.0 if REAL is None else 300.0
MODEL = "toy"


def folder_of(path: Path) -> Path:
    """Of the fake's model, as far as the runtime reads it."""
    folder = path / MODEL
    folder.mkdir(exist_ok=True)
    config = {"model_type": "llama", "vocab_size": server.VOCABULARY}
    (folder / "config.json").write_bytes(msgspec.json.encode(config))
    return folder


def whole_folder_of(path: Path) -> Path:
    """What a worker reads of it, too."""
    folder = folder_of(path)
    of_bytes().save(str(folder / "tokenizer.json"))
    config = {"model_type": "llama", "vocab_size": server.VOCABULARY, "eos_token_id": 1}
    (folder / "config.json").write_bytes(msgspec.json.encode(config))
    (folder / "chat_template.jinja").write_text(QWEN)
    weights = {"w": stored(np.zeros((2, 2), np.float32))}  # none that the toy reads
    write(folder / "model.safetensors", weights, "float32", lambda *_: None)
    return folder


def load_of(folder: Path, sequences: int = 8, model: str = MODEL, **options: Any) -> Load:
    heads: dict[str, dict[str, Any]] = {"generate": {"head": "generate"}}
    return Load(
        model,
        str(folder),
        "llama",
        heads,
        max_tokens=256,
        options={"start_s": DEADLINE_S} | options,
        sequences=sequences,
    )


def sample(folder: Path) -> Sample:
    """For the checks that every runtime passes: the fake, which the runtime starts."""
    command = [sys.executable, str(SCRIPT), "--enable-deterministic-inference"]
    load = load_of(folder_of(folder), 4, command=command)
    return Sample(load, prompts=([5, 6, 7], [8], [9, 10, 11, 12], [5, 6, 7, 5, 6, 7]))


class Fake:
    """The fake in a process of its own."""

    def __init__(
        self, folder: Path, *flags: str, environment: dict[str, str] | None = None
    ) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.popen = subprocess.Popen(
            [sys.executable, str(SCRIPT), "--model-path", str(folder), "--port", str(port), *flags],
            env=os.environ | (environment or {}),
            stdout=subprocess.DEVNULL,
        )

    def seen(self) -> dict[str, Any]:
        """What it says of its texts."""
        told: dict[str, Any] = httpx.get(f"{self.url}/seen", trust_env=False).json()
        return told

    def until_running(self, count: int) -> None:
        """So many texts are under way there."""
        until(lambda: self.seen()["running"] == count, f"{count} texts on the server")

    def end(self) -> None:
        self.popen.kill()
        self.popen.wait()


def servers_of(folder: Path) -> list[int]:
    """Processes that serve this folder's model."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if os.fsencode(folder) in line.read_bytes():
                found.append(int(line.parent.name))
    return found


def until(true: Callable[[], bool], what: str) -> None:
    """Wait for something outside."""
    end = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.005)


@contextlib.contextmanager
def fake(folder: Path, *flags: str, environment: dict[str, str] | None = None) -> Iterator[Fake]:
    """A fake that ends with the block."""
    started = Fake(folder, *flags, environment=environment)
    try:
        yield started
    finally:
        started.end()


class Whole(msgspec.Struct):
    """What came of a sequence."""

    chunks: list[Chunk] = []
    over: Generated | Failed | None = None

    @property
    def tokens(self) -> list[int]:
        return [token for chunk in self.chunks for token in from_wire(chunk.tokens).tolist()]

    @property
    def ended(self) -> Generated:
        assert isinstance(self.over, Generated), self.over
        return self.over

    @property
    def failed(self) -> Failed:
        assert isinstance(self.over, Failed), self.over
        return self.over


class Driver:
    """A runtime as a connection drives it; `gave_up` has why it would have ended its process."""

    def __init__(self, device: str = "cpu") -> None:
        self.gave_up: list[str] = []
        self.runtime = SGLangRuntime(device, ended=self.gave_up.append)
        self.texts: dict[int, Whole] = {}
        self.loaded: set[str] = set()

    def load(self, load: Load) -> int:
        """Its bytes."""
        held = self.runtime.load(load).bytes
        self.loaded.add(load.model)
        return held

    def unload(self) -> None:
        """All of them."""
        for model in self.loaded:
            self.runtime.unload(model)
        self.loaded.clear()

    def begin(
        self,
        batch: int,
        sampling: Sampling = GREEDY,
        prompt: Sequence[int] = PROMPT,
        adapter: str | None = None,
        model: str = MODEL,
    ) -> Whole:
        tokens = to_wire(np.array(prompt, np.int32))
        self.runtime.begin(Generate(batch, model, tokens, sampling, adapter))
        self.texts[batch] = Whole()
        return self.texts[batch]

    def step(self) -> None:
        for message in self.runtime.step():
            assert message.batch is not None
            text = self.texts[message.batch]
            assert text.over is None, "nothing comes of one that is over"
            if isinstance(message, Chunk):
                text.chunks.append(message)
            else:
                text.over = message

    def until_begun(self, *texts: Whole) -> None:
        """The first tokens of these came."""
        self.until(lambda: all(text.chunks for text in texts), "first tokens")

    def until_over(self, *texts: Whole) -> None:
        self.until(lambda: all(text.over is not None for text in texts), "ends")

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Step until something came of it."""

        def stepped() -> bool:
            self.step()
            return true()

        until(stepped, what)

    def whole(self, batch: int, sampling: Sampling = GREEDY, **of: Any) -> Whole:
        """A text from beginning to end."""
        text = self.begin(batch, sampling, **of)
        self.until_over(text)
        return text
