"""The worker's shell: feeds events to the core and performs what it says. Holds no decision.

Instructions go to: the broker (pulls, acks), the preparing thread, the lanes' runtimes, and the
replies. Everything runs on one event loop, in the order it happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from typing import assert_never

from shoal.broker.base import Delivery, PullEnd
from shoal.catalog.resolve import Catalog
from shoal.core import events as ev
from shoal.core.worker import WorkerCore
from shoal.errors import ErrorInfo, ProtocolError, RequestCancelled, Unavailable
from shoal.telemetry import log
from shoal.values import estimated_features
from shoal.wire.queue import Unit, decode_queue
from shoal.wire.socket import Chunk, Done, Generated, Loaded
from shoal.worker.arrivals import Arrivals
from shoal.worker.batches import Batches
from shoal.worker.claims import Claims
from shoal.worker.finishing import Finishing
from shoal.worker.lanes import Lanes
from shoal.worker.letters import Letters
from shoal.worker.peers import Peers
from shoal.worker.preparing import Outcome, Preparing
from shoal.worker.queue import WorkerQueue
from shoal.worker.replies import Replies
from shoal.worker.stash import Stash, head_of
from shoal.worker.texts import Rarely, Texts
from shoal.worker.turns import Turns
from shoal.worker.watch import Watch

_log = log.get(__name__)

#: Standing pulls are renewed this often; the broker forgets those of a worker that died as late.
STANDING_PULL_S = 30.0


class Loop:
    """One worker between its broker, its preparing thread and its lanes."""

    def __init__(self, core: WorkerCore, watch: Watch, catalog: Catalog) -> None:
        self.core = core
        self.units: dict[str, Stash] = {}
        self._watch = watch
        self._arrivals = Arrivals(self.units, watch, catalog)
        self._batches = Batches(self.units, watch, catalog)
        self._heard = Rarely()
        self._turns = Turns(core, self._perform)
        self.finishing = Finishing(self._finished)
        self._empty = asyncio.Event()
        self.attached = False
        self._queue: WorkerQueue
        self._replies: Replies
        self._letters: Letters
        self._lanes: Lanes
        self._claims: Claims
        self._peers: Peers
        self._preparing: Preparing
        self._texts: Texts

    def attach(
        self,
        queue: WorkerQueue,
        replies: Replies,
        letters: Letters,
        lanes: Lanes,
        claims: Claims,
        peers: Peers,
        preparing: Preparing,
    ) -> None:
        """Connect the parts that report back here; nothing may be emitted before."""
        self.attached = True
        self._queue, self._replies, self._letters = queue, replies, letters
        self._lanes, self._claims, self._peers = lanes, claims, peers
        self._preparing = preparing
        self._texts = Texts(self.units, self._watch, replies)

    # --- events in --------------------------------------------------------------------------------

    def emit(self, event: ev.Event) -> None:
        """Let the core react to what happened."""
        self._turns.emit(event)

    def delivered(self, pull: int, delivery: Delivery) -> None:
        """A unit came from the queue."""
        now = time.monotonic()
        try:
            unit = decode_queue(delivery.data)
            if not isinstance(unit, Unit):
                raise ProtocolError(f"a {type(unit).__name__} stands on the work queue")
        except ProtocolError as error:
            _log.event("unit_unreadable", level="error", error=str(error))
            taken_off = partial(self._queue.term, delivery.ack, "unreadable")
            self._letters.keep_unreadable(delivery, error, taken_off)
            return
        if unit.model not in self.core.models:
            self._queue.nak(delivery.ack, 1.0)
            return
        stash, published = self._arrivals.stash_of(unit, delivery, now)
        if stash.ack != delivery.ack:  # delivered again, and the newest ack subject counts
            self._queue.release(stash.ack)
            stash.ack = delivery.ack
        self._queue.hold(delivery.ack)
        longest = self.core.models[unit.model].spec.max_tokens
        estimate = estimated_features(*stash.size, longest=longest)
        head = head_of(unit, estimate, published, delivery.delivered)
        self.emit(ev.Arrived(head, pull, delivery.pending))

    def pull_ended(self, pull: int, reason: PullEnd) -> None:
        """The broker ended a pull."""
        self._watch.metrics.pull(reason)
        if reason == "consumer_gone":
            self._queue.restore_consumers()
        self.emit(
            ev.PullEnded(
                pull,
                found_all=reason in ("empty", "expired"),
                refused=reason in ("conflict", "consumer_gone"),
            )
        )

    def prepared(self, done: list[tuple[Unit, Outcome, float]]) -> None:
        """The preparing thread finished these units.

        One that was given back meanwhile may be here again: it is prepared once more, and what comes
        of the first time is not for it.
        """
        event = ev.Prepared([])
        for unit, outcome, at in done:
            stash = self.units.get(unit.id)
            if stash is not None and stash.unit is unit:
                lengths = stash.prepared(outcome, at)
                event.units.append((unit.id, lengths))
                if stash.places:
                    event.of[unit.id] = stash.wholes()
                self._watch.prepared(stash, lengths)
        self.emit(event)

    def loaded(self, lane: str, loaded: Loaded) -> None:
        """A runtime holds a model."""
        self._watch.loaded(lane, loaded)
        self.emit(ev.Loaded(lane, loaded.model, loaded.bytes, loaded.seconds))

    def load_failed(
        self, lane: str, model: str, reason: str, *, out_of_memory: bool = False
    ) -> None:
        """A runtime cannot load a model."""
        self._watch.load_failed(lane, model, reason)
        self.emit(ev.LoadFailed(lane, model, reason, out_of_memory))

    def fetch_failed(self, model: str, reason: str, *, unserved: bool = False) -> None:
        """A model's files, or the packages of its runtime, cannot be had."""
        self._watch.load_failed(None, model, reason)
        self.emit(ev.FetchFailed(model, reason, unserved))

    def batch_done(self, lane: str, done: Done) -> None:
        """A runtime answered a batch."""
        self._batches.done(lane, done)
        self.emit(ev.Finished(lane, done.batch, done.seconds, tuple(done.failed)))

    def chunk(self, lane: str, kind: str, chunk: Chunk) -> None:
        """A runtime generated more of a text."""
        if self._texts.chunk(chunk):
            self._lanes.end(lane, self._texts.model(chunk.batch), chunk.batch)
        if self._heard.due(lane, kind, time.monotonic()):
            self.emit(ev.Progressed(lane, kind))

    def generated(self, lane: str, over: Generated) -> None:
        """A runtime ended a sequence."""
        self._texts.over(lane, over)
        cut, new = over.finish == "length", over.new_tokens
        self.emit(ev.Finished(lane, over.batch, over.seconds, new_tokens=new, cut=cut))

    def batch_failed(self, lane: str, batch: int, error: ErrorInfo) -> None:
        """A runtime gave a batch back."""
        if error.code != RequestCancelled.code:  # of all of whose texts nobody waits for any more
            told = {"lane": lane, "code": error.code, "error": error.message}
            _log.event("batch_failed", level="warning", **told)
        self._batches.dropped(batch)
        error = self._texts.refused(batch, error)
        self.emit(ev.BatchFailed(lane, batch, error))

    def runtime_died(self, lane: str, kind: str, reason: str) -> None:
        """A runtime process ended, or could not start."""
        models = {name for name, model in self.core.models.items() if model.spec.kind == kind}
        self._batches.lost(lane, models)
        self._texts.lost(lane, models)
        self._watch.metrics.lost(lane, models)
        self.emit(ev.RuntimeDied(lane, kind, reason))

    # --- instructions out -------------------------------------------------------------------------

    def _perform(self, instruction: ev.Instruction, now: float) -> None:
        match instruction:
            case ev.Pull():
                self._pull(instruction)
            case ev.Prepare(unit):
                stash = self.units[unit]
                preparer = self._lanes.preparers[stash.unit.model]
                self._preparing.submit(stash.unit, preparer, stash.size.bytes)
            case ev.Run():
                begin = self._texts.begun if instruction.generates else self._batches.started
                self._lanes.run(instruction.lane, begin(instruction, now))
            case ev.End(lane, batch):
                self._lanes.end(lane, self._texts.model(batch), batch)
            case ev.Reply(unit):
                self._preparing.release(unit)
                self._reply(self.units[unit])
            case ev.Forget(unit):
                self._watch.answered(self._forget(unit))
            case ev.Withdraw(pull):
                self._queue.withdraw(pull)
            case ev.TellPulled():
                self._peers.tell(instruction)
            case ev.FailItem(unit, sequence, error):
                stash = self.units[unit]
                index, _ = stash.place(sequence)
                self._watch.item_failed(stash, index, error)
                stash.fail(index, error)
            case ev.Fail(unit, error):
                self._watch.unit_failed(self.units[unit], error)
                self._preparing.release(unit)
                self._replies.send_error(self.units[unit], error)
            case ev.SetAside(unit):
                self._letters.keep(self.units[unit], instruction)
            case ev.Return(unit, delay_s):
                stash = self._forget(unit)
                self._watch.dropped(stash, "returned")
                self._queue.nak(stash.ack, delay_s)
            case ev.Terminate(unit, reason):
                stash = self._forget(unit)
                self._watch.dropped(stash, reason)
                self._queue.term(stash.ack, reason)
            case ev.StartRuntime(lane, kind):
                self._lanes.start_runtime(lane, kind)
            case ev.KillRuntime(lane, kind):
                self._lanes.kill_runtime(lane, kind)
            case ev.StopRuntime(lane, kind):
                self._watch.recycling(instruction)
                self._lanes.stop_runtime(lane, kind)
            case ev.AskStats(lane, kind):
                self._lanes.ask_stats(lane, kind)
            case ev.AskProcessor(lane, kind):
                self._lanes.ask_processor(lane, kind)
            case ev.Fetch(model, limit_s):
                self._lanes.fetch(model, limit_s)
            case ev.Load(lane, model):
                self._lanes.load(lane, model)
            case ev.Evict(lane, model):
                self._watch.evicting(instruction)
                self._lanes.evict(lane, model)
            case ev.Claim(model, ttl_s):
                self._claims.claim(model, ttl_s)
            case ev.Unclaim(model):
                self._claims.unclaim(model)
            case _:
                assert_never(instruction)

    def _pull(self, pull: ev.Pull) -> None:
        expires_s = STANDING_PULL_S if pull.standing else None
        try:
            self._queue.pull(pull.pull, pull.klass, pull.model, pull.count, expires_s)
        except Unavailable:
            self.emit(ev.PullEnded(pull.pull, refused=True))

    def _reply(self, stash: Stash) -> None:
        if stash.raw and stash.answered is None:  # else it failed as a whole, and is sent again
            self.finishing.submit(stash)
        else:
            self._replies.send(stash)

    def _finished(self, stash: Stash) -> None:
        if self.units.get(stash.unit.id) is stash:
            self._replies.send(stash)

    def _forget(self, unit: str) -> Stash:
        stash = self.units.pop(unit)
        self._queue.release(stash.ack)
        self._replies.forget(stash)
        self._preparing.release(unit)
        if not self.units:
            self._empty.set()
        return stash

    async def drained(self, timeout_s: float) -> bool:
        """Take nothing new and wait until every unit is settled; False if time ran out."""
        self.emit(ev.DrainBegan())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.units:
                    self._empty.clear()
                    await self._empty.wait()
        return not self.units
