"""Forward passes of one short item, straight to a runtime: whether a lane computes at all.

Their batches have numbers below zero, which no batch of the core has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

from shoal.catalog.card import Card
from shoal.errors import ShoalError, Unavailable
from shoal.values import EncodeParams, GenerateParams, Params
from shoal.wire.socket import Generate, Run
from shoal.worker.batches import packed
from shoal.worker.models import heads_of
from shoal.worker.prepared import Preparer
from shoal.worker.texts import generate_of


class Probes:
    """Those that are under way."""

    def __init__(self) -> None:
        self._asked: dict[int, asyncio.Future[None]] = {}
        self._numbers = count(-1, -1)

    async def ask(
        self, card: Card, preparer: Preparer, send: Callable[[Run | Generate], None]
    ) -> None:
        """Have a loaded model compute something. Raises `Unavailable` with the reason."""
        generates = card.tasks.generate is not None
        params: Params = GenerateParams(max_tokens=1) if generates else EncodeParams()
        (item,) = preparer.prepare([preparer.probe], params)
        if isinstance(item, ShoalError):
            raise Unavailable(item.message)
        probe = next(self._numbers)
        future = self._asked[probe] = asyncio.get_running_loop().create_future()
        try:
            if generates:
                send(generate_of(probe, card.name, item))
            else:
                send(packed(probe, card.name, list(heads_of(card))[:1], [*item.sequences]))
            await future
        finally:
            self._asked.pop(probe, None)

    def answered(self, batch: int, failure: str | None = None) -> bool:
        """A runtime answered this batch; whether it was a probe."""
        if batch >= 0:
            return False
        future = self._asked.get(batch)
        if future is not None and not future.done():
            if failure is None:
                future.set_result(None)
            else:
                future.set_exception(Unavailable(failure))
        return True
