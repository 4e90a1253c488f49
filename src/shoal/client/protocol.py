"""Decides what one call sends, when it sends it again, and when it gives up.

Sans I/O: a shell performs each `Send` and tells what came of it; the next instruction, or the
result, comes back. Knows no sockets, no clock (``now`` is an argument, in seconds of any
monotonic clock) and no route: what is asked, and how answers are read, is a `Question`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

import msgspec

from shoal.client.failures import failure
from shoal.errors import ConfigError, DeadlineExceeded, ShoalError, Unavailable

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Request(msgspec.Struct, frozen=True):
    """One HTTP request; `path` is relative to the base URL."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = {}


class Send(msgspec.Struct, frozen=True):
    """Instruction: wait, then send `request` and await the answer at most `timeout_s`."""

    request: Request
    wait_s: float
    timeout_s: float


class Finished(msgspec.Struct, Generic[T], frozen=True):
    """The call is over."""

    value: T


class Answered(msgspec.Struct, frozen=True):
    """An HTTP response came; header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Lost(msgspec.Struct, frozen=True):
    """No response came: refused, broken off, or (`timed_out`) not within the time given."""

    reason: str
    timed_out: bool = False


class Question(Protocol[T_co]):
    """What a call asks. An answer may settle it in part; then the rest is asked again."""

    def request(self) -> Request:
        """What to send now."""

    def read(self, answer: Answered) -> ShoalError | None:
        """Take in a 2xx answer; return why something has to be asked again, if anything."""

    def refused(self, error: ShoalError, answer: Answered) -> bool:
        """Take in what a refusal says is at fault; whether anything is left to be asked."""

    def result(self) -> T_co:
        """What the answers gave."""

    def give_up(self, error: ShoalError) -> T_co:
        """What is left when `error` ends the call; raises it if that is nothing."""


class Retry(msgspec.Struct, frozen=True):
    """How often and how soon to send again.

    Attributes:
        limit: most resends of one request; 0 for none. Six waits last about five seconds: longer than a
            gateway or broker takes to restart, short enough to learn that nothing listens.
        first_s, cap_s: the wait doubles from the first up to the second.
    """

    limit: int = 6
    first_s: float = 0.1
    cap_s: float = 5.0

    def __post_init__(self) -> None:
        if not isinstance(self.limit, int) or self.limit < 0:
            raise ConfigError(f"retries is {self.limit!r}; it must be a whole number, 0 for none")

    def wait_s(self, resend: int, asked_s: float | None, rng: random.Random) -> float:
        """Wait before resend number `resend` (from 0); `asked_s` is the server's Retry-After.

        Random in its upper half, and never sooner than asked, so that callers refused in the
        same moment do not come back in the same moment.
        """
        backoff_s = min(self.cap_s, self.first_s * 2.0**resend) * rng.uniform(0.5, 1.0)
        return backoff_s if asked_s is None else asked_s + 0.25 * backoff_s


#: Called with why a request is sent again, before it is, and after how many seconds.
OnRetry = Callable[[ShoalError, float], None]


class Policy(msgspec.Struct, frozen=True):
    """What every exchange of a client keeps to; `timeout_s` covers its resends and waits."""

    timeout_s: float = 60.0
    retry: Retry = Retry()
    rng: random.Random = msgspec.field(default_factory=random.Random)
    on_retry: OnRetry | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.timeout_s, int | float) or not 0 < self.timeout_s < float("inf"):
            raise ConfigError(f"timeout_s is {self.timeout_s!r}; it must be a number above 0")


class Exchange(Generic[T]):
    """One question, from its first send until it is answered or given up.

    Every send carries the budget that is left (``X-Request-Timeout``) and an id of its own
    (``X-Request-Id``), since a server may still be busy with the one before.
    """

    def __init__(self, question: Question[T], policy: Policy) -> None:
        self._question = question
        self._policy = policy
        self._id = f"{policy.rng.getrandbits(64):016x}"
        self._sends = 0
        self._resends = 0
        self._deadline = 0.0

    def begin(self, now: float) -> Send:
        """The first send; the budget counts from here."""
        self._deadline = now + self._policy.timeout_s
        return self._send(0.0, self._policy.timeout_s)

    def handle(self, outcome: Answered | Lost, now: float) -> Send | Finished[T]:
        """What to do about the outcome of the last send.

        Raises:
            ShoalError: the server's refusal, or the last failure once it is given up.
            ProtocolError: the answer is none that a Shoal gateway gives.
        """
        error = self._failure(outcome)
        if error is None:
            return Finished(self._question.result())
        if self._refused(error, outcome) and not error.retryable:
            return self._send(0.0, max(0.0, self._deadline - now))
        retry = self._policy.retry
        wait_s = retry.wait_s(self._resends, error.retry_after_s, self._policy.rng)
        left_s = self._deadline - now - wait_s
        if not error.retryable or self._resends >= retry.limit or left_s <= 0:
            return Finished(self._question.give_up(error))
        self._resends += 1
        if self._policy.on_retry is not None:
            self._policy.on_retry(error, wait_s)
        return self._send(wait_s, left_s)

    def _refused(self, error: ShoalError, outcome: Answered | Lost) -> bool:
        """Whether it is a refusal that leaves something to be asked."""
        if isinstance(outcome, Lost) or 200 <= outcome.status < 300:
            return False
        return self._question.refused(error, outcome)

    def _failure(self, outcome: Answered | Lost) -> ShoalError | None:
        if isinstance(outcome, Lost):
            if outcome.timed_out:
                return DeadlineExceeded(f"no answer within {self._policy.timeout_s:g} s")
            return Unavailable(outcome.reason)
        if 200 <= outcome.status < 300:
            return self._question.read(outcome)
        return failure(outcome.status, outcome.headers, outcome.body)

    def _send(self, wait_s: float, timeout_s: float) -> Send:
        request = self._question.request()
        headers = {
            **request.headers,
            # Never rounded to nothing, which a gateway takes for a mistake.
            "x-request-timeout": f"{max(timeout_s, 0.001):.3f}",
            "x-request-id": f"{self._id}-{self._sends}",
        }
        self._sends += 1
        return Send(msgspec.structs.replace(request, headers=headers), wait_s, timeout_s)
