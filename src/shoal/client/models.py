"""The routes that answer about a gateway instead of items: its models, and whether it is well."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from shoal.client.protocol import Answered, Request
from shoal.errors import ProtocolError, ShoalError

T = TypeVar("T")


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
