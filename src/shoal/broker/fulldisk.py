"""When a broker whose disk was full is to be started anew.

A nats-server gives a stream up at the first write that finds no space: even when there is room
again it takes no message before a restart (seen with 2.15.1). This decides when that is due, from
the server's log and the free space. It must not know how a server is run.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_SIGN = b"no space left on device"
#: With less free than this a write may have failed, though the log had no room to say so.
LOW_BYTES = 4 * 1024 * 1024


class FullDisk:
    """The disk of one server process. `room_bytes`: free space with which it may start anew."""

    def __init__(self, log: Path, offset: int, room_bytes: int) -> None:
        """`offset`: where in `log` the lines of this process begin."""
        self._log = log
        self._offset = offset
        self._room_bytes = room_bytes
        self.was_full = False

    def restart_due(self) -> bool:
        """Whether it was full once and has room again. Reads a file: not for the event loop."""
        try:
            free = shutil.disk_usage(self._log.parent).free
            self.was_full = self.was_full or free < LOW_BYTES or self._said()
        except OSError:
            return False  # the store was taken away, which its server will tell
        return self.was_full and free >= self._room_bytes

    def _said(self) -> bool:
        with self._log.open("rb") as file:
            # The sign may have been cut in two by the last look.
            file.seek(max(0, self._offset - len(_SIGN)))
            text = file.read()
            self._offset = file.seek(0, os.SEEK_END)
        return _SIGN in text
