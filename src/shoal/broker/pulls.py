"""Pulls of units: asking consumers, routing what comes, and ending every pull exactly once.

It decides which inbox a pull uses. A delivery carries the unit's subject, not the inbox, so each
open pull needs a subscription of its own; one whose pull ended whole is used again, one that was
withdrawn is thrown away, because unsubscribing is how JetStream is told.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from shoal.broker.base import OnDelivery, OnEnd, PullEnd, delivery
from shoal.broker.connection import Connection
from shoal.errors import ShoalError, Unavailable
from shoal.values import TrafficClass
from shoal.wire import subjects

# How long after its time a pull may stay silent before it is taken for lost (a leader that died
# between two servers, say), and how long the answer to one that does not wait may take.
_GRACE_S = 5.0
# Inboxes kept for reuse: about two for each of the models a worker keeps resident.
_KEPT_INBOXES = 128

# Statuses that mean that nobody serves this consumer's pulls any more.
_GONE = ("Consumer Deleted", "Stream Deleted", "Consumer Is Push Based")


class _Inbox:
    """A subscription to ``<subject>.*``; the last token is the pull that uses it right now."""

    __slots__ = ("sid", "subject")

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.sid = 0


class _Pull:
    __slots__ = ("ending", "id", "inbox", "remaining", "reply", "timer", "waits")

    def __init__(self, pull_id: int, inbox: _Inbox, count: int, waits: bool) -> None:
        self.id = pull_id
        self.inbox = inbox
        self.reply = f"{inbox.subject}.{pull_id}"
        self.remaining = count
        self.waits = waits
        self.ending: PullEnd | None = None
        self.timer: asyncio.TimerHandle | None = None


class Puller:
    """All open pulls of one connection; `on_delivery` and `on_end` are called on the event loop."""

    def __init__(self, connection: Connection, on_delivery: OnDelivery, on_end: OnEnd) -> None:
        self._connection = connection
        self._client = connection.client
        self._on_delivery = on_delivery
        self._on_end = on_end
        self._pulls: dict[int, _Pull] = {}
        self._by_inbox: dict[_Inbox, _Pull] = {}
        self._idle: list[_Inbox] = []
        connection.when_lost(self._lost)

    @property
    def open_pulls(self) -> int:
        return len(self._pulls)

    def pull(
        self,
        pull_id: int,
        klass: TrafficClass,
        pool: str,
        model: str,
        count: int,
        expires_s: float | None,
    ) -> None:
        """Ask for up to `count` units; `expires_s` None takes what is there and does not wait.

        `pull_id` must not be in use. Raises `Unavailable` while disconnected.
        """
        if pull_id in self._pulls:
            raise ValueError(f"pull {pull_id} is still open")
        request: dict[str, Any] = {"batch": count}
        if expires_s is None:
            request["no_wait"] = True
        else:
            request["expires"] = int(expires_s * 1e9)
        inbox = self._idle.pop() if self._idle else self._subscribe()
        pull = _Pull(pull_id, inbox, count, expires_s is not None)
        subject = (
            f"$JS.API.CONSUMER.MSG.NEXT.{subjects.stream(klass)}.{subjects.consumer(pool, model)}"
        )
        try:
            self._client.send_publish(subject, pull.reply, msgspec.json.encode(request))
        except ShoalError:
            self._drop(inbox)
            raise
        self._pulls[pull_id] = self._by_inbox[inbox] = pull
        pull.timer = asyncio.get_running_loop().call_later(
            (expires_s or 0.0) + _GRACE_S, self._end_early, pull, "expired"
        )

    def withdraw(self, pull_id: int) -> None:
        """Take back what was not delivered yet; what is on its way still arrives before the end.

        A pull that has ended already is ignored: its end crossed with this call.
        """
        pull = self._pulls.get(pull_id)
        if pull is not None:
            self._end_early(pull, "withdrawn")

    def close(self) -> None:
        """Withdraw everything."""
        for pull_id in list(self._pulls):
            self.withdraw(pull_id)

    def _subscribe(self) -> _Inbox:
        inbox = _Inbox(self._connection.inbox())

        def arrived(data: bytes, reply: str, status: str | None, subject: str) -> None:
            self._arrived(inbox, data, reply, status, subject)

        inbox.sid = self._client.listen(f"{inbox.subject}.*", arrived)
        return inbox

    def _arrived(
        self, inbox: _Inbox, data: bytes, reply: str, status: str | None, subject: str
    ) -> None:
        pull = self._by_inbox.get(inbox)
        if status is not None:
            # A status carries its pull in the subject; one of an earlier pull is of no interest.
            if pull is not None and subject == pull.reply:
                self._told(pull, status)
        elif pull is None:
            self._connection.nak(reply)  # cannot happen by the protocol; give it back if it does
        else:
            pull.remaining -= 1
            self._on_delivery(pull.id, delivery(data, reply))
            if pull.remaining == 0 and pull.ending is None:
                self._finish(pull, "filled")

    def _told(self, pull: _Pull, status: str) -> None:
        code, _, text = status.partition(" ")
        match code:
            case "100":
                return  # a heartbeat
            case "404" | "408":
                end: PullEnd = "expired" if pull.waits else "empty"
            case "503":
                end = "consumer_gone"  # nobody listens where its pulls go
            case _:
                end = "consumer_gone" if text in _GONE else "conflict"
        if pull.ending is None:
            self._finish(pull, end)

    def _finish(self, pull: _Pull, end: PullEnd) -> None:
        """The server is done with it, so its inbox is free for another."""
        self._close(pull)
        if len(self._idle) < _KEPT_INBOXES:
            self._idle.append(pull.inbox)
        else:
            self._drop(pull.inbox)
        self._on_end(pull.id, end)

    def _end_early(self, pull: _Pull, end: PullEnd) -> None:
        """Unsubscribe, and end the pull once everything sent before that has arrived."""
        if pull.ending is not None:
            return
        pull.ending = end
        synced: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        try:
            self._client.send_unsubscribe(pull.inbox.sid)
            self._client.ping(synced)
        except Unavailable:
            return  # disconnected this moment: `_lost` ends it
        synced.add_done_callback(lambda _: self._ended(pull, end))

    def _ended(self, pull: _Pull, end: PullEnd) -> None:
        if self._pulls.get(pull.id) is pull:
            self._close(pull)
            self._client.forget(pull.inbox.sid)
            self._on_end(pull.id, end)

    def _close(self, pull: _Pull) -> None:
        del self._pulls[pull.id]
        del self._by_inbox[pull.inbox]
        if pull.timer is not None:
            pull.timer.cancel()

    def _drop(self, inbox: _Inbox) -> None:
        self._client.send_unsubscribe(inbox.sid)
        self._client.forget(inbox.sid)

    def _lost(self) -> None:
        for inbox in self._idle:
            self._client.forget(inbox.sid)
        self._idle.clear()
        for pull in list(self._pulls.values()):
            self._close(pull)
            self._client.forget(pull.inbox.sid)
            self._on_end(pull.id, "disconnected")
