"""A model of JetStream: one stream whose subjects have a durable pull consumer each.

Modelled, as `tests/sim/test_broker.py` checks against a real nats-server: first in, first out;
pulls that wait are served in turn, one message each; a pull that does not wait takes what is there
and ends; each delivery tells how many messages wait behind it that were never delivered; a nak
comes back before new messages, after its delay; what a dead worker held comes back after
`ack_wait_s`; a message whose time to live is over is gone; a withdrawal may cross with a delivery.
Not modelled: disk, the server's own cost (about 10 µs a message), several servers.
"""

from __future__ import annotations

from collections import deque
from typing import Literal, Protocol

from shoal.sim.clock import Clock, Link
from shoal.sim.unit import Unit

#: Why a pull ended, of the reasons in `broker.base.PullEnd` those that can happen here.
PullEnd = Literal["expired", "empty", "withdrawn"]


class Holder(Protocol):
    """A worker, as its broker sees it: `down` is the connection to it."""

    down: Link

    def delivered(self, pull: int, message: Message, pending: int, filled: bool) -> None:
        """`filled`: this was the last one the pull asked for, and so its end."""

    def pull_ended(self, pull: int, reason: PullEnd) -> None: ...

    def settled(self, message: Message) -> None:
        """The gateway acked it."""


class Message:
    """One unit on the stream. `deliveries`: 1 the first time it was handed out."""

    __slots__ = ("body", "deliveries", "expires_at", "gone", "holder", "stored_at", "subject")

    def __init__(self, subject: str, body: Unit, stored_at: float, ttl_s: float) -> None:
        self.subject = subject
        self.body = body
        self.stored_at = stored_at
        self.expires_at = stored_at + ttl_s
        self.deliveries = 0
        self.holder: Holder | None = None
        self.gone = False  # acked, terminated, expired


class _Pull:
    __slots__ = ("count", "holder", "id", "open")

    def __init__(self, id_: int, holder: Holder, count: int) -> None:
        self.id = id_
        self.holder = holder
        self.count = count
        self.open = True


class _Consumer:
    """One subject: what was never delivered, what came back, and the pulls that wait."""

    __slots__ = ("fresh", "returned", "waiting")

    def __init__(self) -> None:
        self.fresh: deque[Message] = deque()
        self.returned: deque[Message] = deque()
        self.waiting: deque[_Pull] = deque()

    def next(self, now: float) -> Message | None:
        """The message to deliver next; those that expired meanwhile are dropped."""
        for queue in (self.returned, self.fresh):
            while queue:
                message = queue.popleft()
                if message.gone:
                    continue
                if message.expires_at > now:
                    return message
                message.gone = True
        return None

    def next_pull(self) -> _Pull | None:
        while self.waiting:
            pull = self.waiting.popleft()
            if pull.open:
                return pull
        return None


class Broker:
    """All subjects. Methods are called when a message gets here; answers take the holder's link."""

    def __init__(self, clock: Clock, ack_wait_s: float = 5.0) -> None:
        self._clock = clock
        self._ack_wait_s = ack_wait_s
        self._consumers: dict[str, _Consumer] = {}
        self._pulls: dict[tuple[Holder, int], _Pull] = {}
        self._held: dict[Holder, dict[Message, None]] = {}
        self._lost: set[Holder] = set()
        # By how long they wait: the first to end is the first that came. The clock has one call for each
        # line; a call for each of a thousand workers' pulls would make its heap slow.
        self._ends: dict[float, deque[tuple[float, _Pull]]] = {}
        self.redelivered = 0

    def _consumer(self, subject: str) -> _Consumer:
        consumer = self._consumers.get(subject)
        if consumer is None:
            consumer = self._consumers[subject] = _Consumer()
        return consumer

    def new(self, subject: str) -> int:
        """Messages of this subject that were never delivered."""
        return len(self._consumer(subject).fresh)

    def pulls(self, subject: str) -> int:
        """Pulls that wait for messages of this subject."""
        return sum(pull.open for pull in self._consumer(subject).waiting)

    def publish(self, subject: str, body: Unit, ttl_s: float) -> None:
        """Store a message; hand it to a pull that waits."""
        consumer = self._consumer(subject)
        consumer.fresh.append(Message(subject, body, self._clock.now, ttl_s))
        self._serve(consumer)

    # --- pulls ------------------------------------------------------------------------------------

    def pull(
        self, holder: Holder, pull_id: int, subject: str, count: int, expires_s: float | None
    ) -> None:
        """`expires_s` None: take what is there and do not wait."""
        consumer = self._consumer(subject)
        pull = _Pull(pull_id, holder, count)
        if expires_s is not None:
            self._pulls[holder, pull_id] = pull
            consumer.waiting.append(pull)
            self._await_end(pull, expires_s)
            self._serve(consumer)
            return
        while pull.count and (message := consumer.next(self._clock.now)) is not None:
            self._deliver(consumer, pull, message)
        if pull.count:
            holder.down.send(holder.pull_ended, pull_id, "empty")

    def withdraw(self, holder: Holder, pull_id: int) -> None:
        """Nothing more is delivered to it; what is on its way arrives before its end."""
        pull = self._pulls.pop((holder, pull_id), None)
        if pull is not None:
            pull.open = False
            holder.down.send(holder.pull_ended, pull_id, "withdrawn")

    def _await_end(self, pull: _Pull, expires_s: float) -> None:
        line = self._ends.setdefault(expires_s, deque())
        if not line:
            self._clock.after(expires_s, self._end, line)
        line.append((self._clock.now + expires_s, pull))

    def _end(self, line: deque[tuple[float, _Pull]]) -> None:
        now = self._clock.now
        while line and (line[0][0] <= now or not line[0][1].open):
            self._expired(line.popleft()[1])
        if line:
            self._clock.at(line[0][0], self._end, line)

    def _expired(self, pull: _Pull) -> None:
        if pull.open:
            pull.open = False
            del self._pulls[pull.holder, pull.id]
            pull.holder.down.send(pull.holder.pull_ended, pull.id, "expired")

    def _serve(self, consumer: _Consumer) -> None:
        while consumer.waiting and (consumer.fresh or consumer.returned):
            pull = consumer.next_pull()
            if pull is None:
                return
            message = consumer.next(self._clock.now)
            if message is None:
                consumer.waiting.appendleft(pull)
                return
            self._deliver(consumer, pull, message)
            if pull.count:
                consumer.waiting.append(pull)

    def _deliver(self, consumer: _Consumer, pull: _Pull, message: Message) -> None:
        message.deliveries += 1
        self.redelivered += message.deliveries > 1
        holder = message.holder = pull.holder
        if holder in self._lost:  # its pull was on its way when it died
            self._clock.after(self._ack_wait_s, self._return, message)
        else:
            self._held.setdefault(holder, {})[message] = None
        pull.count -= 1
        filled = not pull.count
        if filled:
            pull.open = False
            self._pulls.pop((holder, pull.id), None)
        holder.down.send(holder.delivered, pull.id, message, len(consumer.fresh), filled)

    # --- deliveries -------------------------------------------------------------------------------

    def ack(self, message: Message, confirm_to: Holder) -> None:
        """Done with it, whoever holds it; confirmed to whoever answered it, a repeat too."""
        self.term(message)
        confirm_to.down.send(confirm_to.settled, message)

    def term(self, message: Message) -> None:
        """Never deliver it again."""
        message.gone = True
        self._release(message)

    def nak(self, message: Message, delay_s: float) -> None:
        """Give it back; it is delivered again after `delay_s`, before new ones."""
        self._release(message)
        self._clock.after(delay_s, self._return, message)

    def lost(self, holder: Holder) -> None:
        """A worker died: its pulls are gone at once, what it held comes back after `ack_wait_s`."""
        self._lost.add(holder)
        for key in [key for key in self._pulls if key[0] is holder]:
            self._pulls.pop(key).open = False
        for message in self._held.pop(holder, {}):
            message.holder = None
            self._clock.after(self._ack_wait_s, self._return, message)

    def _release(self, message: Message) -> None:
        if message.holder is not None:
            self._held.get(message.holder, {}).pop(message, None)
            message.holder = None

    def _return(self, message: Message) -> None:
        if not message.gone:
            consumer = self._consumer(message.subject)
            consumer.returned.append(message)
            self._serve(consumer)
