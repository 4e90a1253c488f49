"""Moves under way: a model gets its claim, room is made for it, it is loaded.

    claiming -> clearing (each model that goes: claimed, no longer pulled for, idle, evicted) -> loading

One move a lane at a time. Before it begins the files of its model are fetched, under its claim too:
that holds up no lane. A move is called off when a claim is refused, its room cannot be had or
nobody waits any more; it never waits without an end.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from shoal.core.claims import Claims
from shoal.core.events import Instruction
from shoal.core.lanes import Lane
from shoal.core.models import ModelState
from shoal.core.placement import Placement
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

    def decide(self, now: float, *, begin: bool) -> list[Instruction]:
        """Push every move on as far as it goes; `begin` new ones if any are worth it."""
        out = [i for name in sorted(self._fetching) for i in self._fetch(name, now)]
        out += [i for move in list(self._moves.values()) for i in self._advance(move, now)]
        return out + (self._begin(now) if begin else [])

    def _begin(self, now: float) -> list[Instruction]:
        wants = self._placement.wants(now)
        for want in self._placement.misfits(wants, now):
            largest = max(self._lanes.values(), key=self._placement.most)
            self._residency.refuse(want.model, self._placement.most(largest), now, largest)
        lanes = [lane for name, lane in self._lanes.items() if name not in self._moves]
        out: list[Instruction] = []
        for lane, want in self._placement.decide(wants, now, self._moving(), lanes):
            name = want.model.spec.name
            out += self._claims.ask(name, now)
            if self._residency.has_files(name):
                move = self._moves[lane.id] = Move(lane, want.model)
                out += self._advance(move, now)
            else:
                self._fetching.add(name)
                out += self._fetch(name, now)
        return out

    def _moving(self) -> set[str]:
        """What comes or goes: a model takes part in one move at a time, with its one claim."""
        moves = self._moves.values()
        names = (name for move in moves for name in (move.model.spec.name, *move.victims))
        return self._fetching.union(names)

    def _fetch(self, name: str, now: float) -> list[Instruction]:
        """Once the files are here the claim lingers: the move begins with it, if it still should."""
        here = self._residency.has_files(name)
        if here or not self._claims.asked(name) or self._failed(name):
            self._fetching.discard(name)
            if not here:
                self._placement.called_off(name, now)
            return self._claims.release(name, now, linger=True)
        return self._residency.fetch(self._models[name]) if self._claims.holds(name) else []

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
            return self._claims.release(name, now, linger=True)
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
        victims = self._placement.victims(want, move.lane, now, move.spared | self._moving())
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
        if stage != "evicting" and not (self._claims.asked(name) and self._room.spare(name)):
            return self._spare(move, name, now)
        match stage:
            case "claiming" if self._claims.holds(name):
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
