"""The runtime process: which runtime to make, and the socket of the worker it serves.

How a connection is served is in `server`. This module is the whole entry point of the process
that a worker starts, so it imports little and leaves every runtime's packages to that runtime.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from importlib import import_module

from shoal.cores import yield_cores
from shoal.errors import ConfigError, ShoalError
from shoal.runtimes.base import Runtime
from shoal.runtimes.packages import told
from shoal.runtimes.process import die_with_parent
from shoal.runtimes.server import Server
from shoal.settings import RuntimeSettings, load
from shoal.spelling import nearest

#: Kind -> module and class, which is made of a device and a number of threads. A module is imported
#: only when it is asked for: no kind needs another's packages.
KINDS = {
    "torch": ("shoal.runtimes.torch.runtime", "TorchRuntime"),
    "candle": ("shoal.runtimes.candle.runtime", "CandleRuntime"),
    "onnx": ("shoal.runtimes.onnx.runtime", "OnnxRuntime"),
    "gguf": ("shoal.runtimes.gguf.runtime", "GgufRuntime"),
    "sglang": ("shoal.runtimes.sglang.runtime", "SGLangRuntime"),
    "fake": ("shoal.runtimes.fake.runtime", "FakeRuntime"),
}


def make(kind: str, device: str = "cpu", threads: int = 1) -> Runtime:
    """A runtime of a kind. Raises `ConfigError` for an unknown one, a missing package or device."""
    if kind not in KINDS:
        raise ConfigError(
            f"unknown runtime kind '{kind}'{nearest(kind, KINDS)}; known are {', '.join(KINDS)}"
        )
    module, name = KINDS[kind]
    try:
        made: Runtime = getattr(import_module(module), name)(device, threads)
    except ModuleNotFoundError as error:
        raise ConfigError(told(kind, str(error.name))) from None
    return made


def run(settings: RuntimeSettings) -> None:
    """Serve one worker until it or this process is told to end.

    Raises:
        ConfigError: an unknown kind, a missing package or device, or no worker at the socket.
        ProtocolError: the worker sent garbage.
    """
    runtime = make(settings.kind, settings.device, settings.threads)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(settings.socket)
        except OSError as error:
            raise ConfigError(
                f"no worker listens at {settings.socket}: {error.strerror or error}"
            ) from None
        die_with_parent()
        if settings.device.startswith("cpu"):
            yield_cores()
        gc.freeze()  # modules are no garbage: looking through torch's took 150 ms, GIL held
        Server(connection, runtime).serve()


def main() -> None:
    """``python -m shoal.runtimes.serve kind=fake socket=PATH``: lighter than the whole CLI."""
    status = 0
    try:
        pairs = dict(_pair(argument) for argument in sys.argv[1:])
        run(load(RuntimeSettings, [("command line", pairs)]))
    except ShoalError as error:
        print(f"shoal runtime: {error.message}", file=sys.stderr, flush=True)
        status = 1
    sys.stdout.flush()
    # Tearing torch down takes up to a second and frees nothing that the system does not.
    os._exit(status)


def _pair(argument: str) -> tuple[str, str]:
    key, equals, value = argument.partition("=")
    if not equals:
        raise ConfigError(f"command line: expected key=value, got '{argument}'")
    return key, value


if __name__ == "__main__":
    main()
