"""What can be asked of a gateway: turns every call into exchanges, for a shell to perform.

With `job` all that both clients share; only sending and sleeping is theirs.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from shoal.client import encode, extract, generate, score
from shoal.client.items import Given, Givens, Limits, items_of, query_of
from shoal.client.job import Call, Job
from shoal.client.protocol import Answered, Exchange, OnRetry, Policy, Request, Retry
from shoal.client.question import spelled
from shoal.client.stream import StreamQuestion
from shoal.errors import ProtocolError, ShoalError
from shoal.wire.objects import Extraction, Generation

T = TypeVar("T")

#: Most seconds of a request, where the caller says nothing; of one that generates, as gateways have it.
TIMEOUT_S, GENERATE_TIMEOUT_S = 60.0, 300.0


class Model(msgspec.Struct, frozen=True):
    """A model that the gateway serves.

    Attributes:
        id: the name to ask for it by; `aliases` are others.
        dims: task -> width of a vector.
        outputs: of `encode`, which vectors; the first is what is answered if none is asked.
        labels: of `extract`, what it knows; empty: as its files say, or whatever it is asked.
        instructed: tasks that take an `instruction` of your own.
        state: ``resident``, ``loading`` or ``failed``; ``available`` while no worker has it.
        lanes: devices that hold it now.
        bytes: what one copy holds, or held, as measured; 0 until a worker told.
        runtime: the kind that computes or computed it; None until a worker told.
    """

    id: str
    tasks: list[str] = []
    max_tokens: int | None = None
    dims: dict[str, int] = {}
    aliases: list[str] = []
    prompts: list[str] = []
    license: str | None = None
    languages: list[str] = []
    description: str | None = None
    state: str = "available"
    lanes: int = 0
    bytes: int = 0
    outputs: list[str] = []
    labels: list[str] = []
    instructed: list[str] = []
    runtime: str | None = None


class ModelList(msgspec.Struct, frozen=True):
    """The answer of ``GET /v1/models``."""

    data: list[Model]


class Get(Generic[T]):
    """Asks for a JSON document of a known type."""

    def __init__(self, path: str, type_: type[T]) -> None:
        self._path = path
        self._decoder = msgspec.json.Decoder(type_)
        self._value: T

    def request(self) -> Request:
        return Request("GET", self._path, headers={"accept": "application/json"})

    def refused(self, error: ShoalError, answer: Answered) -> bool:
        return False

    def read(self, answer: Answered) -> None:
        try:
            self._value = self._decoder.decode(answer.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"the answer to GET {self._path} is malformed: {error}") from None

    def result(self) -> T:
        return self._value

    def give_up(self, error: ShoalError) -> T:
        raise error


class Probe:
    """Asks a health route: a 2xx is yes, and so long as it may yet change, all else is no."""

    def __init__(self, path: str) -> None:
        self._path = path

    def request(self) -> Request:
        return Request("GET", self._path)

    def refused(self, error: ShoalError, answer: Answered) -> bool:
        return False

    def read(self, answer: Answered) -> None:
        pass

    def result(self) -> bool:
        return True

    def give_up(self, error: ShoalError) -> bool:
        if error.retryable:
            return False
        raise error


def policies(
    timeout_s: float | None, retries: int, on_retry: OnRetry | None = None
) -> tuple[Policy, Policy]:
    """Those of an `Api`; `timeout_s` None: as the call's kind has it. Raises `ConfigError`."""
    retry = Retry(retries)
    seconds = (TIMEOUT_S, GENERATE_TIMEOUT_S) if timeout_s is None else (timeout_s, timeout_s)
    every, generating = (Policy(most_s, retry, on_retry=on_retry) for most_s in seconds)
    return every, generating


class Api:
    """Makes the exchanges of every call; those that generate keep to a policy of their own."""

    def __init__(self, policy: Policy, generating: Policy, limits: Limits) -> None:
        self._policy = policy
        self._generating = generating
        self._limits = limits

    def encode(
        self, call: Call, model: str, given: Givens, options: encode.EncodeOptions
    ) -> Job[encode.Vectors, encode.Encoded]:
        asked, items = encode.asked(model, options), items_of(given)
        collector = encode.EncodeCollector(model, len(items), asked.fields["params"])
        return Job(asked, items, collector, call, self._policy, self._limits)

    def score(
        self, call: Call, model: str, query: Given, given: Givens, options: score.ScoreOptions
    ) -> Job[float, score.Scored]:
        asked, items = score.asked(model, query_of(query), options), items_of(given)
        collector = score.ScoreCollector(model, len(items))
        return Job(asked, items, collector, call, self._policy, self._limits)

    def extract(
        self, call: Call, model: str, given: Givens, options: extract.ExtractOptions
    ) -> Job[Extraction, extract.Extracted]:
        asked, items = extract.asked(model, options), items_of(given)
        collector = extract.ExtractCollector(model, len(items))
        return Job(asked, items, collector, call, self._policy, self._limits)

    def stream(
        self, model: str, given: generate.Prompt, options: generate.GenerateOptions
    ) -> Exchange[None]:
        item = generate.prompt_of(given, "item")
        return Exchange(StreamQuestion(generate.asked(model, options), item), self._generating)

    def generate(
        self,
        call: Call,
        model: str,
        given: generate.Prompts,
        options: generate.GenerateOptions,
    ) -> Job[Generation, generate.Generated]:
        asked, items = generate.asked(model, options), generate.prompts_of(given)
        collector = generate.GenerateCollector(model, len(items))
        few = min(self._limits.request_items, generate.REQUEST_ITEMS)
        limits = msgspec.structs.replace(self._limits, request_items=few)
        return Job(asked, items, collector, call, self._generating, limits)

    def models(self) -> Exchange[ModelList]:
        return Exchange(Get("/v1/models", ModelList), self._policy)

    def model(self, name: str) -> Exchange[Model]:
        return Exchange(Get(f"/v1/models/{spelled(name)}", Model), self._policy)

    def ready(self) -> Exchange[bool]:
        return self._probe("/readyz")

    def health(self) -> Exchange[bool]:
        return self._probe("/healthz")

    def _probe(self, path: str) -> Exchange[bool]:
        retry = msgspec.structs.replace(self._policy.retry, limit=0)
        return Exchange(Probe(path), msgspec.structs.replace(self._policy, retry=retry))
