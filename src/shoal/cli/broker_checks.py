"""Doctor's questions to the broker: does ours start, does a given one answer, and with JetStream."""

from __future__ import annotations

import subprocess
import tempfile

import msgspec

from shoal.broker.answers import ApiError
from shoal.broker.connection import Connection
from shoal.broker.server import BrokerServer, find_binary
from shoal.cli.asking import ANSWER_S
from shoal.cli.finding import Finding
from shoal.errors import ShoalError
from shoal.settings import CommonSettings

_VERSION_S = 10


class _Account(msgspec.Struct, frozen=True):
    streams: int = 0
    storage: int = 0
    error: ApiError | None = None


async def starts(settings: CommonSettings) -> Finding:
    """That `nats-server` is there and comes up with JetStream, in a folder of its own."""
    try:
        binary = find_binary(settings.broker_binary)
        with tempfile.TemporaryDirectory(prefix="shoal-doctor-") as store:
            server = BrokerServer(
                msgspec.structs.replace(settings, store_dir=store, broker_port=0, broker_token=None)
            )
            await server.start()
            await server.stop()
    except ShoalError as error:
        return Finding("broker", "fail", error.message, "see the message")
    return Finding("broker", "ok", f"{_version(binary)} starts with JetStream ({binary})")


async def reachable(settings: CommonSettings) -> Finding:
    """That the external broker takes us and has JetStream on."""
    try:
        connection = await Connection.open(settings, "shoal-doctor", wait_s=ANSWER_S)
    except ShoalError as error:
        return Finding("broker", "fail", error.message, "see --broker-url, -token and -credentials")
    try:
        account = await connection.api("INFO", {}, _Account)
    except ShoalError as error:
        return Finding("broker", "fail", error.message, "start nats-server with JetStream (-js)")
    finally:
        await connection.close()
    if account.error is not None:
        told = f"JetStream says: {account.error.description}"
        return Finding("broker", "fail", told, "turn JetStream on for this account")
    return Finding("broker", "ok", f"reached, JetStream is on, {account.streams} streams")


def _version(binary: str) -> str:
    done = subprocess.run(
        [binary, "--version"], capture_output=True, text=True, timeout=_VERSION_S, check=False
    )
    return done.stdout.strip() or "nats-server of unknown version"
