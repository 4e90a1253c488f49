"""What a worker asks the queues for, and when.

*Standing pulls.* A lane that has nothing to do opens a pull of one for each model it serves, so
that a lone unit starts at once. When a lane gets busy most of them stay open: with hundreds of
models, taking them back and opening them again would cost more than it saves, and an open one is
knowledge: nothing waits there. Only those that would most likely bring something during the batch
are withdrawn (the latest to have brought a unit first), for a few percent of the batch's seconds.
A unit that comes over one while every lane is busy is kept if a lane is free soon, else given back
(`core.returning`), and then its model is not asked for before a lane is about to be free: nothing
spins.

*Batch pulls.* A busy lane that is about to be free pulls one whole batch, of one model, and never
more than it will start: pulled work is work that no other machine can take.

*When.* As long before a lane is free as it takes from asking for a batch until it is prepared, and
some more where batches end earlier than predicted: both are learned (`core.lead`).

*Which model next.* The one whose turn comes first (`core.urgency`): the oldest, or the one with
the least time, and one that fills a batch somewhat before its age. How many wait is known when a
queue is seen; how many have come since is reckoned from its rate (`core.inflow`). Where it is only
guessed that something waits, the head counts as a little younger. Never waiting for a fuller batch.

*Others* that serve the same models are told of each batch pull: without that each would come round
to a queue at times of its own, to find it just emptied or long neglected. With eight workers and 50
models on one device each, the 99th percentile at half load was 130 ms, and is 63 ms (`shoal sim`).
In a large pool they are told in groups, each of which serves its own models first (`core.groups`).

*Bulk* is asked for where a gateway says that there is some, by a lane for which no interactive work
is known to wait, and for a part of a batch only.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.core.delivery import Units
from shoal.core.events import Arrived, Instruction, PullEnded, TellPulled, UnitHead
from shoal.core.groups import Audience
from shoal.core.lanes import Lane
from shoal.core.lead import Lead
from shoal.core.models import ModelState
from shoal.core.plan import MAX_FETCHING, Plan
from shoal.core.seats import Seats
from shoal.core.sources import Source, Sources
from shoal.core.urgency import PATIENCE_S
from shoal.values import TrafficClass

#: Most units of one pull: bounds what a wrong prediction can pull in.
MAX_PULL = 512
#: A broker that refused a pull is asked again this much later, not in a hot loop.
REFUSED_S = 0.1
#: Withdrawing a standing pull and opening it again takes about 40 µs each, in worker and broker.
REOPEN_S = 80e-6
#: Part of a batch's predicted seconds that this may take.
REOPEN_SHARE = 0.03
#: A model that brought nothing for this many batches will hardly bring anything in the next one:
#: then giving back what comes, at some 200 µs and a millisecond of delay, costs less.
HOT_BATCHES = 4.0
#: A gateway tells every half second that bulk waits; one lost message is no news.
WANTED_S = 1.5

#: Part of a full batch that, left in a queue, is worth another group's visit.
MUCH = 0.5

#: How many lanes of other workers have this model loaded.
Elsewhere = Callable[[str], int]


class Pulls:
    """The choice of the next pull requests."""

    def __init__(
        self,
        lanes: dict[str, Lane],
        models: dict[str, ModelState],
        units: Units,
        elsewhere: Elsewhere,
        seats: Seats,
        margin_s: float,
        audience: Audience,
    ) -> None:
        self.sources = Sources(s for model in models.values() for s in (model.work, model.bulk))
        self._lanes = list(lanes.values())
        self._models = models
        self._units = units
        self._elsewhere = elsewhere
        self._seats = seats
        self._audience = audience
        self.lead = Lead(margin_s)
        self._refused_until = 0.0
        self._stale = True
        self._sizes: list[tuple[int, int]] = []
        self._took: list[Lane] = []

    # --- what happened ----------------------------------------------------------------------------

    def ended(self, event: PullEnded, now: float) -> list[Instruction]:
        """The broker ended this pull; if something is left in the queue, others may know."""
        source = self.sources.ended(event, now)
        if source is None:
            return []
        if event.refused:
            self._refused_until = now + REFUSED_S
        if not source.pending:
            return []
        return self._tell(source, source.pending, source.due, source.pending, now)

    def _tell(
        self, source: Source, pending: int, due: float, units: int, now: float
    ) -> list[Instruction]:
        """What this worker leaves in a queue, for those who may serve it too; `units`: that are left or taken."""
        model = self._models[source.model]
        much = units * model.unit_s >= MUCH * model.batch_s
        groups = self._audience.of(source.model, now, much=much)
        return [TellPulled(group, source.model, source.klass, pending, due) for group in groups]

    def arrived(self, event: Arrived, now: float) -> bool:
        """A unit came; whether a batch pull asked for it."""
        return self.sources.arrived(event, now)

    def prepared(self, name: str, now: float) -> None:
        """Units of this model are on the shelf; once none is missing of a batch, learn how long it took."""
        source, coming = self._models[name].work, self._models[name].coming["work"]
        if source.asked_at is None or source.batch is not None or coming:
            return
        took_s, source.asked_at = now - source.asked_at, None
        self.lead.took(took_s)

    def gave_back(self, unit: UnitHead) -> None:
        self.sources.gave_back(unit)

    def bulk_wanted(self, models: list[str], now: float) -> None:
        """A gateway has bulk work for these models."""
        self.sources.want_bulk(models, now, now + WANTED_S)

    def lost(self) -> None:
        """The connection is gone and every pull with it."""
        self.sources.lost()

    def withdraw_all(self) -> list[Instruction]:
        return self.sources.withdraw_all()

    def residency_changed(self) -> None:
        """What the lanes serve may be other than before."""
        self._stale = True

    def _serve(self) -> list[Instruction]:
        """Ask for what any lane serves and nothing else."""
        sizes = [(len(lane.resident), len(lane.leaving)) for lane in self._lanes]
        if not self._stale and sizes == self._sizes:
            return []
        self._stale, self._sizes = False, sizes
        names = (name for lane in self._lanes for name in sorted(lane.resident - lane.leaving))
        return self.sources.serve(dict.fromkeys(names))

    # --- what to ask ------------------------------------------------------------------------------

    def next_wake(self, now: float) -> float | None:
        """When a broker that refused is to be asked again."""
        return self._refused_until if self._refused_until > now else None

    def decide(self, now: float) -> list[Instruction]:
        """Pull what the lanes will start soon; take back what would come in vain."""
        out = self._serve()
        if now < self._refused_until:
            return out
        taking = [lane for lane in self._lanes if lane.can_take(now, self.lead.seconds)]
        if taking != self._took:
            for lane in self._took:
                if lane not in taking:
                    out += self._cool(lane, taking, now)
            self._took = taking
        if taking and (self.sources.unwatched["work"] or self.sources.unwatched["bulk"]):
            out += self._ask(taking, now)
        return out + self._fill_seats()

    def _fill_seats(self) -> list[Instruction]:
        """Of models that generate, as many units as there are places, and to be told while there are
        any; nothing else: whatever waits here is what another machine cannot begin."""
        out: list[Instruction] = []
        for model in self._seats.models if self._seats else ():
            for source in (model.bulk, model.work):
                if self._seats.room(model, source.klass) < 0:
                    out += self.sources.withdraw(source)
            for source in (model.work, model.bulk):
                room = self._seats.room(model, source.klass)
                if room > 0 and model.spec.name in self.sources.unwatched[source.klass]:
                    known = min(MAX_PULL, room, source.pending)
                    out.append(self.sources.ask(source, known or 1, standing=not known))
        return out

    def _cool(self, busy: Lane, taking: list[Lane], now: float) -> list[Instruction]:
        """Withdraw the standing pulls that would most likely bring what this lane cannot start."""
        batch_s = max(0.0, busy.free_at - now)
        most = int(batch_s * REOPEN_SHARE / REOPEN_S)
        out: list[Instruction] = []
        for looked, source in enumerate(reversed(self.sources.hot.values())):
            if len(out) >= most or looked >= 2 * most:
                break
            if now - source.came_at > HOT_BATCHES * batch_s:
                break
            name = source.model
            if source.standing is None or any(lane.serves(name) for lane in taking):
                continue
            if self._models[name].spec.sequences:
                continue
            if busy.serves(name) and self._elsewhere(name):
                out += self.sources.withdraw(source)
                source.empty(now)
        return out

    def _ask(self, taking: list[Lane], now: float) -> list[Instruction]:
        """Cover each lane's next batch: by what is here or on its way, else by a pull."""
        away = self._audience.aways(now)
        plan = Plan(self._models, self._units, self.sources, self._lanes_of, away, now)
        watching = [lane for lane in taking if not plan.fill(lane)]
        out: list[Instruction] = []
        for source, count in plan.pulls():
            out.append(self.sources.ask(source, min(MAX_PULL, count), standing=False))
            source.asked_at = now
            # Most batches take all there is; what is left is told once it is known.
            out += self._tell(source, 0, now + PATIENCE_S, source.pending, now)
        return out + self._watch(watching)

    def _lanes_of(self, model: str) -> int:
        """Lanes that have this model, here and elsewhere."""
        return sum(lane.serves(model) for lane in self._lanes) + self._elsewhere(model)

    def _watch(self, lanes: list[Lane]) -> list[Instruction]:
        """These lanes have nothing: be told of whatever comes."""
        if not lanes:
            return []
        sources = [
            source
            for waiting in self.sources.unwatched.values()
            for source in waiting.values()
            if not source.pending
            and not self._models[source.model].spec.sequences
            and self._has_room(self._models[source.model], source.klass)
        ]
        return [
            self.sources.ask(source, 1, standing=True)
            for source in sources
            if any(lane.serves(source.model) for lane in lanes)
        ]

    @staticmethod
    def _has_room(model: ModelState, klass: TrafficClass) -> bool:
        """Whether less than a batch of it is here: one that is only being prepared is one, too."""
        return model.fetching < MAX_FETCHING and model.waiting[klass] < model.batch_s
