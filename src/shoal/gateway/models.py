"""`GET /v1/models` and `/v1/models/{id}`: the catalog in OpenAI's shape, with what it leaves out."""

from __future__ import annotations

import msgspec

from shoal.catalog.card import Card
from shoal.gateway.request import Request
from shoal.gateway.response import Response
from shoal.gateway.service import Gateway


class ModelObject(msgspec.Struct, frozen=True):
    """One model. The first four fields are OpenAI's.

    Attributes:
        dims: task -> width of a vector.
        outputs: of `encode`, which vectors; the first is what is answered if none is asked.
        labels: of `extract`, what it knows; empty: as its files say, or whatever it is asked.
        state: `resident`, `loading` or `failed`; `available` while no worker has it.
        instructed: tasks that take an `instruction` of the caller's.
        lanes: devices that hold it now; `bytes`: what one copy holds or held, 0 if not known.
        runtime: the kind that computes or computed it; null until a worker told.
    """

    id: str
    created: int
    owned_by: str
    tasks: list[str]
    max_tokens: int
    dims: dict[str, int]
    aliases: list[str]
    license: str | None
    languages: list[str]
    description: str | None
    prompts: list[str]
    state: str
    lanes: int
    bytes: int
    outputs: list[str] = []
    labels: list[str] = []
    instructed: list[str] = []
    runtime: str | None = None
    object: str = "model"


class ModelsRoute:
    """The handlers, bound to a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list(self, request: Request, rest: str) -> Response:
        """Every model of the catalog."""
        states = self._gateway.fleet.states()
        data = [self._shape(card, states) for card in self._gateway.catalog.cards()]
        return Response(msgspec.json.encode({"object": "list", "data": data}))

    async def get(self, request: Request, name: str) -> Response:
        """One model, by name or alias."""
        card = self._gateway.catalog.card(name)
        return Response(msgspec.json.encode(self._shape(card, self._gateway.fleet.states(), name)))

    def _shape(self, card: Card, states: dict[str, str], name: str | None = None) -> ModelObject:
        encode, extract = card.tasks.encode, card.tasks.extract
        lanes, bytes_ = self._gateway.fleet.copies(card.name)
        return ModelObject(
            id=name or card.name,
            created=0,
            owned_by="shoal",
            tasks=card.tasks.names(),
            max_tokens=card.max_tokens,
            dims={"encode": encode.dense.dim} if encode and encode.dense else {},
            aliases=card.aliases,
            license=card.license,
            languages=card.languages,
            description=card.description,
            prompts=list(encode.prompts) if encode else [],
            state=states.get(card.name, "available"),
            lanes=lanes,
            bytes=bytes_,
            outputs=encode.outputs() if encode else [],
            labels=extract.labels if extract else [],
            instructed=card.tasks.instructed(),
            runtime=self._gateway.fleet.runtime(card.name),
        )
