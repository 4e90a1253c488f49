"""The process of a worker, and the signals that end it."""

import asyncio
import os
import socket
import sys
from asyncio.subprocess import Process
from pathlib import Path

from shoal.broker.server import BrokerServer

from .conftest import CARD
from .scripted import ScriptedGateway, until


async def process_of(
    broker_url: str, *flags: str, stderr: int | None = None, **variables: str
) -> Process:
    command = (sys.executable, "-m", "shoal", "worker", "--broker-url", broker_url, *flags)
    return await asyncio.create_subprocess_exec(*command, env=os.environ | variables, stderr=stderr)


async def test_a_download_that_does_not_come_keeps_no_worker_from_ending(
    broker: BrokerServer, tmp_path: Path
) -> None:
    card = tmp_path / "far.yaml"
    card.write_text(CARD.format(name="far", options="{}", dim=8).replace("dir: .", "hub: an/other"))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        hub = f"http://127.0.0.1:{silent.getsockname()[1]}"
        flags = ("--catalog", str(card), "--models", "far", "--cache-dir", str(tmp_path))
        worker = await process_of(broker.url, *flags, HF_ENDPOINT=hub, HF_HOME=str(tmp_path))
        accept = asyncio.get_running_loop().sock_accept(silent)
        connection, _ = await asyncio.wait_for(accept, 60)
        with connection:
            worker.terminate()
            assert await asyncio.wait_for(worker.wait(), 60) == 0


async def test_a_signal_ends_a_worker_that_waits_for_its_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        worker = await process_of(f"nats://127.0.0.1:{silent.getsockname()[1]}")
        accept = asyncio.get_running_loop().sock_accept(silent)
        connection, _ = await asyncio.wait_for(accept, 60)
        with connection:
            worker.terminate()
            assert await asyncio.wait_for(worker.wait(), 60) == 0


async def test_the_first_signal_drains_and_the_second_does_not_wait(
    broker: BrokerServer, gateway: ScriptedGateway, tmp_path: Path
) -> None:
    card = tmp_path / "fake.yaml"
    card.write_text(CARD.format(name="fake", dim=8, options="{inputs: text, base_s: 600.0}"))
    worker = await process_of(broker.url, "--models", "fake", "--catalog", str(card))
    await gateway.publish(["a text"])
    await until(lambda: any(pulse.units_held for pulse in gateway.pulses.values()))
    worker.terminate()
    await until(lambda: all(pulse.draining for pulse in gateway.pulses.values()))
    worker.terminate()
    assert await asyncio.wait_for(worker.wait(), 60) == 0


async def test_a_worker_says_which_setting_it_cannot_begin_with(
    broker: BrokerServer, tmp_path: Path
) -> None:
    (tmp_path / "fake.yaml").write_text(CARD.format(name="fake", dim=8, options="{inputs: text}"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for flags, said in (
            (
                ("--models", "fakr"),
                b"error: models: no model is called 'fakr' (did you mean 'fake'?)",
            ),
            (("--health-port", port), b"Address already in use; set another port"),
        ):
            worker = await process_of(
                broker.url, "--catalog", str(tmp_path), *flags, stderr=asyncio.subprocess.PIPE
            )
            _, errors = await asyncio.wait_for(worker.communicate(), 60)
            assert worker.returncode == 2
            assert said in errors
