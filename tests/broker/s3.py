"""A real S3 server for tests: moto's, in a process of its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import count

from shoal.bench.ports import free_port

_buckets = count(1)


class S3:
    """Where the server listens, and the variables under which clients find it."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.environment = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }

    def new_bucket(self) -> str:
        """An empty bucket's URL."""
        name = f"bucket-{next(_buckets)}"
        request = urllib.request.Request(f"{self.url}/{name}", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
        return f"s3://{name}"

    def objects(self, bucket: str) -> int:
        """How many objects it holds."""
        name = bucket.removeprefix("s3://").partition("/")[0]
        with urllib.request.urlopen(f"{self.url}/{name}?list-type=2", timeout=10) as answer:
            return int(answer.read().count(b"<Contents>"))


@contextlib.contextmanager
def s3_server() -> Iterator[S3]:
    """A server that ends with the block."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        server = S3(port)
        _await_answer(process, server.url)
        yield server
    finally:
        process.terminate()
        process.wait(10)


def _await_answer(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(f"{url}/moto-api/", timeout=5).close()
            return
        time.sleep(0.05)
    raise AssertionError("moto's server did not start")
