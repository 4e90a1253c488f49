"""The streams and consumers Shoal needs: how they are set, and making the broker agree.

One stream per class and one for dead letters, one durable pull consumer per (pool, model). Raw ``$JS.API`` requests: nats-py's
structs lack several of the fields. Every function here may be called again at any time.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.broker.answers import ApiError
from shoal.broker.base import Bus
from shoal.broker.connection import Connection
from shoal.errors import BrokerError, Unavailable
from shoal.values import TrafficClass
from shoal.wire import subjects

_SECOND_NS = 1_000_000_000

# The gateway refuses work long before these; they bound the broker's disk if a gateway goes wrong.
# Per subject, so that one congested model cannot fill the stream for all others.
_MAX_UNITS_PER_MODEL = 200_000
_MAX_UNITS = 2_000_000
_MAX_BYTES: dict[TrafficClass, int] = {"work": 1 << 30, "bulk": 4 << 30}
# Dead letters are kept for two weeks, a holiday; at 100 kB each these are thousands.
_DEAD_AGE_S = 14 * 24 * 3600
_DEAD_MAX_BYTES = 256 << 20
#: What the broker must be allowed to store, with as much again for key-value buckets.
STORE_BYTES = 2 * sum(_MAX_BYTES.values())

# Message ids are per attempt: they only have to outlive the wait for a publish ack (5 s).
_DUPLICATES_S = 15

# Standing pulls of all workers on one model, several each; they cost memory only while they stand.
_MAX_WAITING = 8192

_STREAM_NOT_FOUND = 10059
_STREAM_EXISTS = 10058
_JETSTREAM_OFF = (10039, 10076)
_NO_SPACE = 10047
_CONSUMER_REFUSED = 10012
_NOT_NOW = 503


class _Answer(msgspec.Struct, frozen=True):
    error: ApiError | None = None
    config: dict[str, Any] = {}


def _stream_config(klass: TrafficClass, replicas: int) -> dict[str, Any]:
    return {
        "name": subjects.stream(klass),
        "description": f"Shoal: units of class {klass}",
        "subjects": [subjects.stream_subjects(klass)],
        "retention": "workqueue",
        "storage": "file",
        "discard": "new",
        "discard_new_per_subject": True,
        "max_msgs": _MAX_UNITS,
        "max_msgs_per_subject": _MAX_UNITS_PER_MODEL,
        "max_bytes": _MAX_BYTES[klass],
        "duplicate_window": _DUPLICATES_S * _SECOND_NS,
        "allow_msg_ttl": True,
        "num_replicas": replicas,
    }


def _dead_config(replicas: int) -> dict[str, Any]:
    """The newest dead letters stay: those in the way of a flood are the oldest."""
    return {
        "name": subjects.DEAD_STREAM,
        "description": "Shoal: units that were given up",
        "subjects": [f"{subjects.DEAD_LETTERS}.>"],
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "max_age": _DEAD_AGE_S * _SECOND_NS,
        "max_bytes": _DEAD_MAX_BYTES,
        "duplicate_window": _DUPLICATES_S * _SECOND_NS,
        "num_replicas": replicas,
    }


async def ensure_streams(connection: Connection, replicas: int = 1) -> None:
    """Create the streams, or change the settings of those that are there.

    Raises:
        BrokerError: the broker refuses, with its reason, or is too old.
        Unavailable: JetStream does not answer, or not yet.
    """
    configs = [_stream_config(klass, replicas) for klass in subjects.CLASSES]
    for wanted in [*configs, _dead_config(replicas)]:
        await ensure_stream(connection, wanted)


async def ensure_stream(connection: Connection, wanted: dict[str, Any]) -> None:
    """Create one stream with these settings, or change them. Raises as `ensure_streams`."""
    refused = _differences(wanted, await _made(connection, wanted))
    if refused:
        # A server ignores what it does not know: units would never expire, say.
        raise BrokerError(
            f"nats-server {connection.server_version} did not take {', '.join(refused)} of the "
            f"stream {wanted['name']}: Shoal needs 2.11 or newer"
        )


async def _made(connection: Connection, config: dict[str, Any]) -> dict[str, Any]:
    """The stream's settings once they are as near to `config` as the broker makes them."""
    name = config["name"]
    now = await connection.api(f"STREAM.INFO.{name}", {}, _Answer)
    if now.error is not None and now.error.err_code == _STREAM_NOT_FOUND:
        now = await connection.api(f"STREAM.CREATE.{name}", config, _Answer)
        if now.error is not None and now.error.err_code == _STREAM_EXISTS:
            # Another process, of another version, made it meanwhile.
            now = await connection.api(f"STREAM.INFO.{name}", {}, _Answer)
        else:
            _check(now, f"create the stream {name}")
            return now.config
    _check(now, f"look up the stream {name}")
    if not _differences(config, now.config):
        return now.config
    # Whoever runs the broker may have scaled its replicas: those stay.
    kept = {"num_replicas": now.config.get("num_replicas", config["num_replicas"])}
    changed = {**now.config, **config, **kept}
    now = await connection.api(f"STREAM.UPDATE.{name}", changed, _Answer)
    _check(now, f"change the stream {name}")
    return now.config


def _differences(wanted: dict[str, Any], present: dict[str, Any]) -> list[str]:
    return [
        key for key, value in wanted.items() if key != "num_replicas" and present.get(key) != value
    ]


async def ensure_consumer(
    connection: Connection, klass: TrafficClass, pool: str, model: str, ack_wait_s: float
) -> None:
    """Create the durable pull consumer of one (pool, model), or change its settings.

    Raises:
        BrokerError: the broker refuses, with its reason.
        Unavailable: JetStream does not answer, or not yet.
    """
    stream, name = subjects.stream(klass), subjects.consumer(pool, model)
    config = _consumer_config(name, subjects.work_subject(klass, pool, model), ack_wait_s)
    made = await _make_consumer(connection, stream, config)
    if made.error is not None and made.error.err_code == _CONSUMER_REFUSED:
        # `max_waiting` of another version cannot be changed. Making the consumer anew would forget
        # who holds which unit, so what it is stays.
        now = await connection.api(f"CONSUMER.INFO.{stream}.{name}", {}, _Answer)
        kept = {"max_waiting": now.config.get("max_waiting", _MAX_WAITING)}
        made = await _make_consumer(connection, stream, {**config, **kept})
    _check(made, f"create the consumer {name} on {stream}")


def _consumer_config(name: str, subject: str, ack_wait_s: float) -> dict[str, Any]:
    return {
        "durable_name": name,
        "filter_subject": subject,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": int(ack_wait_s * _SECOND_NS),
        # Units are never dropped for having been delivered often: strikes judge poison.
        "max_deliver": -1,
        # Unlimited. A unit given back with a delay, or held while its model loads, keeps its slot:
        # any limit would let a cold worker's units keep all others from a warm one.
        "max_ack_pending": -1,
        "max_waiting": _MAX_WAITING,
    }


async def _make_consumer(connection: Connection, stream: str, config: dict[str, Any]) -> _Answer:
    return await connection.api(
        f"CONSUMER.CREATE.{stream}.{config['durable_name']}.{config['filter_subject']}",
        {"stream_name": stream, "config": config},
        _Answer,
    )


def recall(bus: Bus, klass: TrafficClass, sequence: int) -> None:
    """Take a unit off its stream, wherever it is. Raises `Unavailable` while disconnected.

    Nothing happens if it is not there any more, and no answer is awaited.
    """
    request = {"seq": sequence, "no_erase": True}
    subject = f"$JS.API.STREAM.MSG.DELETE.{subjects.stream(klass)}"
    bus.publish(subject, msgspec.json.encode(request))


def _check(answer: _Answer, what: str) -> None:
    error = answer.error
    if error is None:
        return
    if error.err_code in _JETSTREAM_OFF:
        raise BrokerError(
            f"cannot {what}: JetStream is off; start nats-server with JetStream (-js)"
        )
    if error.err_code == _NO_SPACE:
        raise BrokerError(
            f"cannot {what}: {error.description}; give the broker's JetStream "
            f"max_file_store at least {STORE_BYTES >> 30} GiB"
        )
    if error.code == _NOT_NOW:
        raise Unavailable(f"cannot {what} yet: {error.description}", retry_after_s=1.0)
    raise BrokerError(f"cannot {what}: {error.description} (JetStream error {error.err_code})")
