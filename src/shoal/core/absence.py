"""Whether any worker lives, and what a request is told where none does.

Decides how long requests wait for the first worker, or for one that comes back: one that starts, or was
started again, answers what waits, so that nobody needs to notice. It must not know what a pulse says.
"""

from __future__ import annotations

from shoal.errors import Unavailable

#: Who is refused may ask again after so long: a worker takes about that to start.
RETRY_AFTER_S = 10.0


class Absence:
    """The workers of one pool, as one gateway hears of them; `wait_s`: how long none may be there.

    Nobody counts as away before `listening` was called.
    """

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._since: float | None = None

    def listening(self, now: float) -> None:
        """Workers are heard from now on, if there are any: what was before says nothing."""
        self._since = now

    def counted(self, workers: int, now: float) -> None:
        """So many take work, by what was heard lately."""
        if workers:
            self._since = None
        elif self._since is None:
            self._since = now

    def refusal(self, now: float) -> Unavailable | None:
        """Why a new request is not taken in; None where a worker lives or is waited for."""
        if self._since is None or now - self._since < self._wait_s:
            return None
        return Unavailable(
            f"no worker has been there for {now - self._since:.0f} s, and nothing can be computed: "
            "start one (`shoal worker`), or look into the log of the one that should run; "
            "/readyz names the pool",
            retry_after_s=RETRY_AFTER_S,
        )
