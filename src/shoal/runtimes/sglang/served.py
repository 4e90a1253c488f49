"""What a server says of itself: which model it serves, what that holds, and what it can do.

Written after ``model_info`` and ``server_info`` of ``entrypoints/http_server.py`` and
``get_internal_state`` of ``managers/scheduler.py``, SGLang 0.5.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from shoal.errors import ModelLoadFailed, reason
from shoal.wire.socket import Load

_GB = 1 << 30
#: A server keeps some places of its context for itself, up to this many.
_KEPT_TOKENS = 16


class Memory(msgspec.Struct, frozen=True):
    """Of one rank, in GiB. `graph`: of captured passes, by kind; in older versions all in one, once
    called `cuda_graph`."""

    weight: float = 0.0
    kvcache: float = 0.0
    graph: dict[str, float] | float = 0.0
    cuda_graph: float = 0.0

    @property
    def bytes(self) -> int:
        graph = sum(self.graph.values()) if isinstance(self.graph, dict) else self.graph
        return int((self.weight + self.kvcache + max(graph, self.cuda_graph)) * _GB)


class State(msgspec.Struct, frozen=True):
    memory_usage: Memory = Memory()


class Config(msgspec.Struct, frozen=True):
    """What the folder's ``config.json`` says of its model.

    Attributes:
        vocab_size: ids go from 0 up to it.
    """

    vocab_size: int
    model_type: str | None = None


class Served(msgspec.Struct, frozen=True):
    """Fields that a version does not tell have their defaults."""

    model_path: str
    is_generation: bool = True
    served_model_name: str | None = None
    model_type: str | None = None
    version: str = "of an unknown number"
    device: str | None = None
    enable_lora: bool | None = None
    grammar_backend: str | None = None
    enable_deterministic_inference: bool = False
    max_req_input_len: int | None = None
    internal_states: list[State] = []

    def held_bytes(self, device: str) -> int:
        """What it holds on each of its devices; nothing where they are not of this lane's kind."""
        if self.device is not None and self.device != device.partition(":")[0]:
            return 0
        return max((state.memory_usage.bytes for state in self.internal_states), default=0)

    def check(self, load: Load, config: Config, serves: str | None) -> None:
        """Raises `ModelLoadFailed` where it cannot stand for the model that is to be loaded."""
        if not self.is_generation:
            raise ModelLoadFailed(f"the server's model {self.model_path} generates no texts")
        if not self._is(load, serves):
            raise ModelLoadFailed(
                f"the server serves {self.model_path}, and not {serves or load.model}; start it with "
                f"that, or say in the profile's option `serves` that this is the same model"
            )
        if self.model_type is not None and config.model_type not in (None, self.model_type):
            raise ModelLoadFailed(
                f"the server's model {self.model_path} is a {self.model_type}, and "
                f"{load.path}/config.json says {config.model_type}"
            )
        longest = self.max_req_input_len
        if longest is not None and longest + _KEPT_TOKENS < load.max_tokens:
            raise ModelLoadFailed(
                f"the server takes texts of {longest} tokens, and max_tokens of '{load.model}' is "
                f"{load.max_tokens}; give it more memory or --context-length, or the card less"
            )

    def _is(self, load: Load, serves: str | None) -> bool:
        names = {self.model_path, self.served_model_name}
        if serves is not None:
            return serves in names
        if load.path and Path(self.model_path).resolve() == Path(load.path).resolve():
            return True
        return _last(load.model) in {_last(name) for name in names if name}


def served_of(told: dict[str, Any]) -> Served:
    """Raises `ModelLoadFailed` for what is not as SGLang tells it."""
    try:
        return msgspec.convert(told, Served)
    except msgspec.ValidationError as error:
        raise ModelLoadFailed(
            f"the server does not describe itself as SGLang does: {error}"
        ) from None


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].casefold()


def config_of(folder: Path) -> Config:
    """Raises `ModelLoadFailed` where there is none, or no size of a vocabulary."""
    path = folder / "config.json"
    try:
        told = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        return msgspec.convert((told.get("text_config") or {}) | told, Config)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ModelLoadFailed(
            f"{path} is needed for its vocab_size, since SGLang does not check ids: {reason(error)}"
        ) from None
