"""What `shoal plan` is told of devices and models: kinds to choose from, and each model's size."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path

import msgspec

from shoal.core.batcher import Budget
from shoal.errors import ConfigError, reason
from shoal.sim.scenario import CPU, GPU, Device, Model

#: Of a model that the file does not describe: an encoder of 100 million parameters in float16, and
#: reading that from a disk.
MEMORY_MB = 300.0
LOAD_S = 0.5


class Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of device.

    Attributes:
        base_ms, token_us: a batch takes base + tokens x token, for a model whose `cost` is 1.
        memory_gb: room for models, what batches need already taken off.
        price: of one device, in any money and time; 0: not to be compared.
    """

    name: str
    base_ms: float
    token_us: float
    memory_gb: float
    price: float = 0.0
    max_batch_ms: float = 20.0
    max_batch_tokens: int = 8192


class Size(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model: `cost` times what its kind of device says, and what a copy holds and costs to load."""

    cost: float = 1.0
    memory_mb: float = MEMORY_MB
    load_s: float = LOAD_S


class Fleet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Kinds to choose from, and the models that are not like most."""

    kinds: list[Kind]
    models: dict[str, Size] = {}


def _kind(device: Device, memory_gb: float) -> Kind:
    base_s, token_s, _, _ = device.cost
    budget = device.budget
    return Kind(
        device.name,
        base_s * 1e3,
        token_s * 1e6,
        memory_gb,
        max_batch_ms=budget.seconds * 1e3,
        max_batch_tokens=budget.tokens,
    )


#: Where no file is given: the devices of `shoal sim`.
DEFAULT = Fleet([_kind(GPU, 24.0), _kind(CPU, 16.0)])


def read_fleet(path: Path) -> Fleet:
    """The fleet of a TOML file. Raises `ConfigError` that says what is wrong where."""
    try:
        fleet = msgspec.convert(tomllib.loads(path.read_text()), Fleet)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {reason(error)}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{path}: {error}; a kind has name, base_ms, token_us, memory_gb and may have price"
        ) from None
    for one in (*fleet.kinds, *fleet.models.values()):
        for name, value in msgspec.structs.asdict(one).items():
            if isinstance(value, float) and not 0 <= value < math.inf:
                raise ConfigError(f"{path}: {name} is {value}; it must be a number from 0")
    for kind in fleet.kinds:
        if min(kind.base_ms, kind.token_us, kind.memory_gb) <= 0:
            raise ConfigError(
                f"{path}: kind '{kind.name}': base_ms, token_us and memory_gb are more than 0"
            )
    return fleet


def model_on(kind: Kind, name: str, share: float, size: Size, longest: int) -> Model:
    """A model as it runs on this kind of device. `longest`: tokens of its longest item."""
    return Model(
        name,
        share,
        (kind.base_ms / 1e3 * size.cost, kind.token_us / 1e6 * size.cost, 0.0, 0.0),
        Budget(kind.max_batch_ms / 1e3, kind.max_batch_tokens, 256),
        max_tokens=longest,
        bytes=int(size.memory_mb * (1 << 20)),
        load_s=size.load_s,
    )
