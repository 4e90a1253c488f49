"""Whether a grammar compiles in bounded time, tried in a process that can be ended: a thread cannot.

llguidance bounds how large a grammar becomes, and not how long it looks at the parts of one: 260 names by
pattern (`patternProperties`, 3 kB of schema) take half a minute, as each is compared with each.
"""

from __future__ import annotations

import contextlib
import json
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from shoal.errors import InvalidRequest

if TYPE_CHECKING:
    from llguidance import LLParserLimits

#: Grammars below so many characters take less than a second, whatever they ask.
TRIED_FROM = 1024
#: Of a processor. The largest that are asked, schemas of 64 KiB, take one or two; with the model's
#: tokens, which come after, up to twice that.
MOST_CPU_S = 3.0
#: And by the clock, where the machine is busy with other things.
MOST_S = 30.0
#: A lexer's states hold 1 to 2 kB each, and the library allows 250,000: too much for one request.
_MOST_STATES = 20_000


def limits() -> LLParserLimits:
    """What a grammar may become."""
    from llguidance import LLParserLimits

    return LLParserLimits(max_lexer_states=_MOST_STATES, verbose_errors=False)


class Trials:
    """A process that compiles one grammar after the other, begun with the first. Of one thread."""

    def __init__(self, most_cpu_s: float = MOST_CPU_S) -> None:
        self._most_cpu_s = most_cpu_s
        self._process: subprocess.Popen[bytes] | None = None

    def check(self, source: str) -> None:
        """Raises `InvalidRequest` for a grammar that takes too long, or ends the process that compiles it."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        heard = True
        with contextlib.suppress(BrokenPipeError):  # it ended, which its status tells
            process.stdin.write(json.dumps(source).encode() + b"\n")
            process.stdin.flush()
            heard = bool(select.select([process.stdout], [], [], MOST_S)[0])
            if heard and process.stdout.readline():
                return
        code = self.end()
        if heard and code != -signal.SIGPROF:
            raise InvalidRequest(
                f"the grammar cannot be kept: what compiled it ended with status {code}"
            )
        raise InvalidRequest(
            f"the grammar cannot be kept: to compile it takes more than {self._most_cpu_s:g} s; ask for fewer "
            "properties and, above all, fewer or simpler patterns (`patternProperties`), or check them "
            "afterwards"
        )

    def end(self) -> int | None:
        """End the process, if there is one; its exit status."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.kill()
        with contextlib.suppress(BrokenPipeError), process:
            pass
        return process.returncode

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.end()
            self._process = self._started()
        return self._process

    def _started(self) -> subprocess.Popen[bytes]:
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        command = [sys.executable, "-m", "shoal.runtimes.trial", str(self._most_cpu_s)]
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=nothing, start_new_session=True
        )


def main(most_cpu_s: float) -> None:
    """Compile what comes, a line of JSON each, and tell a line when one is done; ends with its input."""
    from llguidance import LLMatcher

    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, most_cpu_s)
        LLMatcher.validate_grammar(json.loads(line), None, limits=limits())
        signal.setitimer(signal.ITIMER_PROF, 0)
        print("done", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))
