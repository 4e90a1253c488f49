"""Moves under way: a model gets its claim, room is made for it, it is loaded.

    claiming -> clearing (each model that goes: claimed, no longer pulled for, idle, evicted) -> loading

One move a lane at a time. Before it begins the files of its model are fetched, under its claim too:
that holds up no lane. A move is called off when a claim is refused, its room cannot be had or
nobody waits any more; it never waits without an end. Also carries out what memory demands at
once: a model that turned out larger than it was thought, a load or batch that was out of memory.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from shoal.core.claims import Claims
from shoal.core.events import Instruction, Loaded, LoadFailed
from shoal.core.lanes import Lane
from shoal.core.models import ModelState
from shoal.core.placement import Placement, Want
from shoal.core.residency import Residency
from shoal.core.room import Room


class Move(msgspec.Struct):
    """One model on its way to one lane; `victims` make room, `spared` could not be claimed."""

    lane: Lane
    model: ModelState
    stage: Literal["claiming", "clearing", "loading"] = "claiming"
    victims: dict[str, Literal["claiming", "leaving", "evicting"]] = {}
    spared: set[str] = set()


class Moves:
    """All moves of a worker, at most one a lane."""

    def __init__(
        self,
        residency: Residency,
        placement: Placement,
        room: Room,
        claims: Claims,
    ) -> None:
        self._lanes = room.lanes
        self._models = room.models
        self._residency = residency
        self._placement = placement
        self._room = room
        self._claims = claims
        self._moves: dict[str, Move] = {}
        self._fetching: set[str] = set()
        self._short: set[tuple[str, str]] = set()  # loads that were out of memory once

    def decide(self, now: float, *, begin: bool) -> list[Instruction]:
        """Push every move on as far as it goes; `begin` new ones if any are worth it."""
        out = [i for name in sorted(self._fetching) for i in self._fetch(name, now)]
        out += [i for move in list(self._moves.values()) for i in self._advance(move, now)]
        return out + (self._begin(now) if begin else [])

    def _begin(self, now: float) -> list[Instruction]:
        wants = self._placement.wants(now)
        self._refuse_misfits(wants, now)
        moving = {move.model.spec.name for move in self._moves.values()} | self._fetching
        lanes = [lane for name, lane in self._lanes.items() if name not in self._moves]
        out: list[Instruction] = []
        for lane, want in self._placement.decide(wants, now, moving, lanes):
            name = want.model.spec.name
            out += self._claims.ask(name, now)
            if self._residency.has_files(name):
                move = self._moves[lane.id] = Move(lane, want.model)
                out += self._advance(move, now)
            else:
                self._fetching.add(name)
                out += self._fetch(name, now)
        return out

    def _fetch(self, name: str, now: float) -> list[Instruction]:
        """Once the files are here the claim lingers: the move begins with it, if it still should."""
        here = self._residency.has_files(name)
        if here or not self._claims.asked(name) or self._failed(name):
            self._fetching.discard(name)
            if not here:
                self._placement.called_off(name, now)
            return self._claims.release(name, now, linger=here or self._failed(name))
        return self._residency.fetch(self._models[name]) if self._claims.holds(name) else []

    def _refuse_misfits(self, wants: list[Want], now: float) -> None:
        """Fail what even the largest lane could never hold."""
        largest = max(self._lanes.values(), key=self._placement.most)
        most = self._placement.most(largest)
        for want in wants:
            if want.model.footprint.bytes > most:
                self._residency.refuse(want.model, most, now, largest)

    def stop(self, now: float) -> list[Instruction]:
        """Call off what has not begun to load: this worker is about to leave."""
        self._fetching.clear()
        begun = [move for move in self._moves.values() if move.stage != "loading"]
        return [i for move in begun for i in self._call_off(move, now)]

    def _advance(self, move: Move, now: float) -> list[Instruction]:
        name = move.model.spec.name
        if move.stage == "loading":
            if move.lane.wants(name) and name not in move.lane.resident:
                return []
            del self._moves[move.lane.id]
            ended = name in move.lane.resident or self._failed(name)
            return self._claims.release(name, now, linger=ended)
        if not self._claims.asked(name) or self._failed(name):
            return self._call_off(move, now)
        if not self._claims.holds(name):
            return []
        move.stage = "clearing"
        return self._clear(move, now)

    def _failed(self, model: str) -> bool:
        return self._models[model].state == "failed"

    def _clear(self, move: Move, now: float) -> list[Instruction]:
        """Bring every victim nearer to its end; once there is room, load."""
        out = [i for name in list(move.victims) for i in self._press(move, name, now)]
        if move.victims:
            return out
        if self._placement.need(move.model, move.lane) <= 0:
            self._residency.want(move.model, move.lane)
            move.stage = "loading"
            return out
        want = next((w for w in self._placement.wants(now) if w.model is move.model), None)
        if want is None:
            return out + self._call_off(move, now)
        victims = self._placement.victims(want, move.lane, now, move.spared)
        if victims is None:
            return out + self._call_off(move, now)
        for name in victims:
            move.victims[name] = "claiming"
            out += self._claims.ask(name, now)
        return out + [i for name in victims for i in self._press(move, name, now)]

    def _press(self, move: Move, name: str, now: float) -> list[Instruction]:
        lane = move.lane
        if name not in lane.memory.copies:
            del move.victims[name]
            return self._claims.release(name, now, linger=True)
        stage = move.victims[name]
        if stage != "evicting" and not self._claims.asked(name):  # refused, or lost since
            return self._spare(move, name, now)
        match stage:
            case "claiming" if self._claims.holds(name):
                if not self._room.spare(name):
                    return self._spare(move, name, now)
                move.victims[name] = "leaving"
                lane.leaving.add(name)
                return self._press(move, name, now)
            case "leaving" if self._room.idle(lane, name):
                move.victims[name] = "evicting"
                return [self._room.let_go(lane, name, f"for {move.model.spec.name}", now)]
            case "leaving":
                lane.leaving.add(name)  # again, if its runtime was started anew meanwhile
        return []

    def _spare(self, move: Move, name: str, now: float) -> list[Instruction]:
        """It stays; another may go in its place."""
        del move.victims[name]
        move.spared.add(name)
        move.lane.leaving.discard(name)
        return self._claims.release(name, now, linger=False)

    def _call_off(self, move: Move, now: float) -> list[Instruction]:
        """What is being let go goes on; who was only to leave stays."""
        del self._moves[move.lane.id]
        self._placement.called_off(move.model.spec.name, now)
        out: list[Instruction] = []
        for name, stage in move.victims.items():
            move.lane.leaving.discard(name)
            out += self._claims.release(name, now, linger=stage == "evicting")
        return out + self._claims.release(move.model.spec.name, now, linger=False)

    # --- what memory demands at once ----------------------------------------------------------------

    def loaded(self, event: Loaded, now: float) -> list[Instruction]:
        """A model is resident; if it is larger than was thought, others go, or it does."""
        lane, model = self._lanes[event.lane], self._models[event.model]
        if lane.loading != event.model:
            return []  # said by a process that died since: it is loaded again
        self._residency.loaded(lane, model, event, now)
        self._short.discard((lane.id, event.model))
        over = -lane.memory.free
        if over <= 0:
            return []
        reason = f"{event.model} holds more than was thought"
        out = self._room.relieve(lane, over, now, event.model, reason)
        if out:
            return out
        too_large = event.model in self._room.pinned or self._placement.too_large(model, lane)
        reason = f"{reason}, and there is no room for it"
        evict = self._room.let_go(lane, event.model, reason, now)
        if too_large:
            self._residency.refuse(model, self._placement.most(lane), now, lane)
        return [evict]

    def out_of_memory(self, event: LoadFailed, now: float) -> list[Instruction] | None:
        """A load was out of memory: evict something and try once more; None: it failed for good.

        While what could make room is at work, the load is put off: that ends.
        """
        lane, model = self._lanes[event.lane], self._models[event.model]
        if not event.out_of_memory or (lane.id, event.model) in self._short:
            self._short.discard((lane.id, event.model))
            return None
        need = lane.memory.needs(model.footprint)
        reason = f"{event.model} was out of memory while it was loaded"
        out = self._room.relieve(lane, need, now, event.model, reason)
        out = out or self._room.relieve(lane, 1, now, event.model, reason)
        if not out and lane.resident - self._room.pinned and event.model not in self._room.pinned:
            self._residency.put_off(lane, model)
            self._placement.called_off(event.model, now)
            return []
        if not out:
            return None
        self._short.add((lane.id, event.model))
        self._residency.load_again(lane, model)
        return out

    def relieve(self, lane: Lane, model: str, now: float) -> list[Instruction]:
        """One item alone was out of memory: let something idle go, if there is any."""
        out = self._room.relieve(lane, 1, now, model, f"a batch of {model} was out of memory")
        lane.starved = bool(out)
        return out
