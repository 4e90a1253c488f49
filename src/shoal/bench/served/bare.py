"""llama.cpp's own HTTP server, as the package xllamacpp carries it, with nothing of ours before it.

Started as ``python -m shoal.bench.served.bare FILE THREADS STREAMS TOKENS PORT``. What is not told is as its
authors have it; the keys of all streams are in one store, as in ours, so that any of them may be long.
"""

from __future__ import annotations

import signal
import sys


def main(file: str, threads: int, streams: int, tokens: int, port: int) -> None:
    """Serve until a signal comes. `tokens`: that all streams have room for together."""
    from xllamacpp import CommonParams, Server

    params = CommonParams()
    params.model.path = file
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_parallel, params.n_ctx, params.kv_unified = streams, tokens, True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.verbosity = 1
    server = Server(params)
    print(server.listening_address, flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
