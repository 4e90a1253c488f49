"""The worker's end against processes that do what no runtime should. See also `conformance`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
import uvloop

from shoal.runtimes.base import RuntimeStartFailed
from shoal.runtimes.link import RuntimeProcess
from shoal.runtimes.spec import RuntimeSpec
from shoal.wire import codec
from shoal.wire import socket as m

DEADLINE_S = 30.0
#: Connects as a runtime does and says hello; a test adds what it does next.
HELLO = """
    import os, signal, socket, sys, time
    from shoal.wire.frames import frame_of
    from shoal.wire.socket import *
    path = dict(a.split("=", 1) for a in sys.argv[1:])["socket"]
    s = socket.socket(socket.AF_UNIX); s.connect(path)
    s.sendall(frame_of(Hello("rogue", "0", "cpu", Capabilities())))
"""


class Rogue:
    """A process that runs `script`, and what became of it."""

    def __init__(self, script: str) -> None:
        command = (sys.executable, "-c", textwrap.dedent(script))
        self.heard: list[codec.Message] = []
        self.exits: list[tuple[int, str]] = []
        self.ended = asyncio.Event()
        self.process = RuntimeProcess(
            RuntimeSpec("rogue", command=command), self.heard.append, self._exited
        )

    def _exited(self, status: int, words: str) -> None:
        self.exits.append((status, words))
        self.ended.set()

    async def end(self) -> tuple[int, str]:
        await asyncio.wait_for(self.ended.wait(), DEADLINE_S)
        assert len(self.exits) == 1
        return self.exits[0]


async def refused(script: str, timeout_s: float = DEADLINE_S) -> str:
    """The message with which `start` fails; nothing else may be reported or left behind."""
    rogue = Rogue(script)
    with pytest.raises(RuntimeStartFailed) as caught:
        await rogue.process.start(timeout_s)
    assert rogue.exits == []
    with pytest.raises(ProcessLookupError):
        os.kill(rogue.process.pid, 0)
    return caught.value.message


async def test_ctrl_c_does_not_reach_it_and_its_priority_counts_beside_ours() -> None:
    rogue = Rogue(HELLO + "    time.sleep(600)")
    await rogue.process.start(DEADLINE_S)
    pid = rogue.process.pid
    assert os.getpgid(pid) == pid != os.getpgid(0)
    assert os.getsid(pid) == os.getsid(0)  # sched(7), "The autogroup feature"
    rogue.process.kill()
    await rogue.end()


async def test_a_process_that_ends_early_shows_its_last_lines() -> None:
    message = await refused("import sys; print('out'); sys.exit('no such device: cuda:9')")
    assert message.startswith("runtime 'rogue' ended with status 1 before it said hello")
    assert message.endswith("no such device: cuda:9")


async def test_a_process_that_ends_without_a_word_is_told_in_one_line() -> None:
    message = await refused("import os; os._exit(9)")
    assert message == "runtime 'rogue' ended with status 9 before it said hello"


async def test_a_silent_process_is_killed() -> None:
    message = await refused("import time; time.sleep(60)", timeout_s=0.3)
    assert "did not say hello within 0.3 s" in message


async def test_another_protocol_is_refused() -> None:
    script = HELLO.replace("Capabilities()", "Capabilities(), 99") + "    time.sleep(60)"
    assert "speaks protocol 99, the worker 1" in await refused(script)


async def test_a_message_before_hello_is_refused() -> None:
    script = HELLO.replace('Hello("rogue", "0", "cpu", Capabilities())', 'Loaded("m", 1, 1.0)')
    assert "'Loaded' where a hello was due" in await refused(script + "    time.sleep(60)")


async def test_a_command_that_does_not_exist() -> None:
    process = RuntimeProcess(RuntimeSpec("x", command=("/no/such",)), print, print)
    with pytest.raises(RuntimeStartFailed, match="cannot start /no/such for runtime 'x'"):
        await process.start()
    await process.stop()


@pytest.mark.parametrize(
    ("bytes_sent", "reason"),
    [
        ("b'\\xff\\xff\\xff\\xff'", "over the limit"),
        ("b'\\x00\\x00\\x00\\x05hello'", "frame from the runtime"),
        ("frame_of(Load('m', '/', 'bert', {}))", "'load'"),
        ("frame_of(Hello('again', '0', 'cpu', Capabilities()))", "a second one"),
    ],
)
async def test_garbage_ends_the_process(bytes_sent: str, reason: str) -> None:
    rogue = Rogue(HELLO + f"    s.sendall({bytes_sent})\n    time.sleep(60)")
    await rogue.process.start(DEADLINE_S)
    status, words = await rogue.end()
    assert status == -signal.SIGKILL
    assert "garbage on the socket" in words
    assert reason in words


async def test_messages_sent_before_the_end_arrive_before_it_is_reported() -> None:
    rogue = Rogue(
        HELLO + "    s.sendall(frame_of(Loaded('m', 1, 1.0)) * 3 + frame_of(Bye('had enough')))\n"
        "    sys.exit('last words')"
    )
    await rogue.process.start(DEADLINE_S)
    status, words = await rogue.end()
    assert (status, words) == (1, "last words\nhad enough")
    assert rogue.heard == [m.Loaded("m", 1, 1.0)] * 3


async def test_a_process_that_closes_only_its_socket_is_killed() -> None:
    rogue = Rogue(HELLO + "    s.close(); time.sleep(60)")
    await rogue.process.start(DEADLINE_S)
    assert (await rogue.end())[0] == -signal.SIGKILL


async def test_stop_insists_and_reports_nothing() -> None:
    deaf = "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    print('deaf', flush=True)\n"
    rogue = Rogue(HELLO.replace("    path =", deaf + "    path =") + "    time.sleep(60)")
    await rogue.process.start(DEADLINE_S)
    await rogue.process.stop(grace_s=0.2)
    with pytest.raises(ProcessLookupError):
        os.kill(rogue.process.pid, 0)
    assert rogue.exits == []


async def test_stderr_goes_to_the_log_and_its_end_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    rogue = Rogue(
        HELLO
        + "    print('x' * 100_000)\n    for i in range(30): print('line', i)\n    sys.exit(3)"
    )
    with caplog.at_level(logging.INFO, "shoal.runtimes.link"):
        await rogue.process.start(DEADLINE_S)
        status, words = await rogue.end()
    assert status == 3
    assert words.splitlines() == [f"line {i}" for i in range(10, 30)]
    assert [r.message for r in caplog.records][-30:] == [f"line {i}" for i in range(30)]


async def test_a_long_temporary_folder_still_makes_a_short_socket_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long" * 30)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    rogue = Rogue(HELLO + "    s.recv(1)")
    await rogue.process.start(DEADLINE_S)
    await rogue.process.stop()
    assert list(long.iterdir()) == []


def test_it_works_on_uvloop() -> None:
    async def load() -> codec.Message:
        heard: asyncio.Queue[codec.Message] = asyncio.Queue()
        process = RuntimeProcess(RuntimeSpec("fake"), heard.put_nowait, print)
        await process.start(DEADLINE_S)
        process.send(m.Load("m", "", "fake", {"dense": {"dim": 4}}))
        message = await asyncio.wait_for(heard.get(), DEADLINE_S)
        await process.stop()
        return message

    assert isinstance(uvloop.run(load()), m.Loaded)


@pytest.mark.skipif(sys.platform != "linux", reason="needs PR_SET_PDEATHSIG")
def test_a_runtime_deep_in_a_call_dies_with_its_worker() -> None:
    script = """
        import asyncio, os, signal
        from shoal.runtimes.link import RuntimeProcess
        from shoal.runtimes.spec import RuntimeSpec
        from shoal.wire.socket import Load

        async def main():
            process = RuntimeProcess(RuntimeSpec("fake"), print, print)
            await process.start()
            process.send(Load("m", "", "fake", {}, options={"load_s": 600}))
            print(process.pid, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

        asyncio.run(main())
    """
    worker = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, timeout=DEADLINE_S
    )
    assert worker.returncode == -signal.SIGKILL
    wait_until_gone(int(worker.stdout))


def wait_until_gone(pid: int) -> None:
    """A process that is nobody's child here; a pidfd becomes readable when it ends."""
    import select

    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        readable, _, _ = select.select([descriptor], [], [], DEADLINE_S)
        assert readable, f"process {pid} still lives"
    finally:
        os.close(descriptor)
