"""What a card's runtime answers when it is asked without gateway, queue and batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from shoal.catalog.card import Card
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.settings import WorkerSettings
from shoal.tasks.encode import Item, Media
from shoal.tasks.outputs import Rows, finished, needed
from shoal.values import EncodeParams, ExtractParams, GenerateParams, Params, ScoreParams
from shoal.wire.arrays import from_wire
from shoal.wire.objects import Extraction, Generation
from shoal.wire.outputs import read_outputs
from shoal.wire.socket import Chunk, Generated
from shoal.worker.batches import packed
from shoal.worker.models import load_of, preparer_of
from shoal.worker.prepared import Answer, Prepared
from shoal.worker.texts import generate_of


class Direct:
    """One model, one item at a time."""

    def __init__(self, card: Card, folder: Path) -> None:
        profile = card.profile("default")
        self._card = card
        self._preparer = preparer_of(card, folder, profile, "tokens", WorkerSettings())
        self._runtime = TorchRuntime()
        self._runtime.load(load_of(card, folder, profile))

    def encode(
        self, items: list[Any], outputs: tuple[str, ...], prompt: str | None
    ) -> dict[str, list[Any]]:
        """Rows of each output, one an item."""
        params = EncodeParams(outputs, prompt=prompt)
        answers = [self._answer(item, params) for item in items]
        return {name: [answer[name] for answer in answers] for name in outputs}

    def score(self, query: str, documents: list[str]) -> list[float]:
        params = ScoreParams(msgspec.json.encode(query))
        return [float(self._answer(document, params, query)["score"]) for document in documents]

    def extract(
        self, items: list[Any], labels: list[str] | None, **options: Any
    ) -> list[Extraction]:
        params = ExtractParams(tuple(labels) if labels else None, **options)
        answers = [self._answer(item, params) for item in items]
        return [msgspec.msgpack.decode(answer, type=Extraction) for answer in answers]

    def generate(self, items: list[str], **params: Any) -> list[Generation]:
        made = self._preparer.prepare([*items], GenerateParams(**params))
        prepared = [one for one in made if isinstance(one, Prepared)]
        assert len(prepared) == len(made), made
        return [self._generation(one) for one in prepared]

    def _generation(self, item: Prepared) -> Generation:
        assert item.write is not None
        writing = item.write()
        self._runtime.begin(generate_of(1, self._card.name, item))
        while True:
            for message in self._runtime.step():
                if isinstance(message, Chunk):
                    writing.add(from_wire(message.tokens), None)
                else:
                    assert isinstance(message, Generated), message
                    return msgspec.msgpack.decode(writing.end(message), type=Generation)

    def _answer(self, item: Any, params: Params, query: Item | None = None) -> Any:
        given = Media(item) if isinstance(item, bytes) else item
        made = self._preparer.prepare([given], params, query)
        prepared = [one for one in made if isinstance(one, Prepared)]
        assert len(prepared) == len(made), made
        rows = [[self._rows(sequence, params) for sequence in one.sequences] for one in prepared]
        first, *asked = prepared
        if first.finish is not None:
            answer: Answer = first.finish(rows[0], rows[1] if asked else ())
            return answer
        return self._plain(first, params)

    def _rows(self, sequence: Prepared, params: Params) -> Rows:
        return {name: output.rows()[0] for name, output in self._outputs(sequence, params).items()}

    def _plain(self, sequence: Prepared, params: Params) -> Rows:
        made = finished(self._outputs(sequence, params), [0], params, self._card.tasks)
        assert not made.invalid
        return {name: rows[0] for name, rows in made.rows.items()}

    def _outputs(self, sequence: Prepared, params: Params) -> Any:
        heads = list(needed(params, self._card.tasks))
        done = self._runtime.run(packed(1, self._card.name, heads, [sequence]))
        assert not done.failed, done.failed
        return read_outputs(done.arrays, done.lengths, done.indices, 1)
