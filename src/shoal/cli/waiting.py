"""Tells on stderr what keeps a command waiting, so that nobody watches a silent terminal.

Decides what is told and when waiting is hopeless; sending, and sending again, is the client's.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
import threading
from typing import Self
from urllib.parse import urlsplit

from shoal.cli.context import read_running
from shoal.errors import ShoalError, Unavailable

#: An answer that takes longer looks like a hang.
SILENT_S = 1.0
#: An address of this machine takes or refuses a connection at once.
PROBE_S = 0.3


class Waiting:
    """While it is open: says once that an answer is long in coming, and why each resend is made.

    Args:
        url: of the gateway that is asked.
        timeout_s: most seconds for one request.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        self._what = f"{url}, for {timeout_s:g} s a request at most (--timeout)"
        self._timer = threading.Timer(SILENT_S, self._silent)
        self._timer.daemon = True
        self._told = ""

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._timer.cancel()

    def answered(self, _: object) -> None:
        """Something came."""
        self._timer.cancel()

    def retried(self, error: ShoalError, wait_s: float) -> None:
        """A request is sent again; several in a row for one reason are told once."""
        self._timer.cancel()
        if error.message != self._told:
            self._told = error.message
            _tell(f"{error.message}; trying again: {self._what}")

    def _silent(self) -> None:
        _tell(f"waiting for an answer of {self._what}")


def check_listening(url: str) -> None:
    """Raises `Unavailable` where the gateway would be on this machine, and nobody listens there.

    A `shoal serve` that says it is there may be restarting its gateway: that is worth the wait.
    """
    parts = urlsplit(url)
    if not _is_here(parts.hostname or "") or any(one.url == url for one in read_running()):
        return
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname, port), PROBE_S).close()
    except ConnectionRefusedError:
        raise Unavailable(
            f"nothing listens at {url}: start a gateway with `shoal serve MODEL`, or name one that "
            "runs elsewhere with --url or SHOAL_URL"
        ) from None
    except OSError:
        return  # it may be slow, or the name odd: the client finds out


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
