"""What headers say: their values, media types, deadlines.

Decides which values are malformed. It must not know bodies or routes.
"""

from __future__ import annotations

from shoal.errors import InvalidRequest
from shoal.values import number

Header = tuple[bytes, bytes]

#: What may stand around a value.
SPACE = b" \t"
JSON = b"application/json"
MSGPACK = b"application/msgpack"
#: Every name under which MessagePack goes about; it has no other registered one than the last.
MSGPACK_TYPES = frozenset({MSGPACK, b"application/x-msgpack", b"application/vnd.msgpack"})


def by_name(headers: list[Header]) -> dict[bytes, bytes]:
    """Name -> value; of a header that came several times the values as a list (RFC 9110, 5.3).

    So two keys or two classes are none: taking either, a proxy that took the other would be fooled.
    Space behind a value is no part of it (5.5); the parser leaves it there.
    """
    values = {name: value.rstrip(SPACE) for name, value in headers}
    if len(values) == len(headers):
        return values
    several: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        several.setdefault(name, []).append(value.rstrip(SPACE))
    return {name: b", ".join(parts) for name, parts in several.items()}


def media_type(header: bytes) -> bytes:
    """The type of a `Content-Type`, without its parameters."""
    if header == JSON:
        return JSON
    return header.partition(b";")[0].strip().lower()


def accepts_msgpack(accept: bytes, sent_msgpack: bool) -> bool:
    """Whether `Accept` asks for MessagePack; a caller with no wish gets what it sent.

    The greater weight decides (RFC 9110, 12.5.1). Of equal ones a type that is named goes before one
    that a `*` stands for, and MessagePack before JSON: who names it can read it.
    """
    if not accept or accept == b"*/*":
        return sent_msgpack
    weights = {media_type(part): _weight(part) for part in accept.split(b",")}
    other = weights.get(b"application/*", weights.get(b"*/*", 0.0))
    named = [weights[name] for name in MSGPACK_TYPES if name in weights]
    msgpack, json = max(named, default=other), weights.get(JSON, other)
    if msgpack != json:
        return msgpack > json
    return msgpack > 0 and (bool(named) or (sent_msgpack and JSON not in weights))


def _weight(part: bytes) -> float:
    """The `q` of one of the types; 1 without one, and where it is no number."""
    for parameter in part.lower().split(b";")[1:]:
        name, _, value = parameter.partition(b"=")
        if name.strip() == b"q":
            weight = number(value.strip().decode("latin-1"))
            return 1.0 if weight is None else weight
    return 1.0


def asked_timeout_s(header: str, default_s: float, most_s: float) -> float:
    """What an `X-Request-Timeout` asks for, at most `most_s`. Raises `InvalidRequest`."""
    if not header:
        return default_s
    asked_s = number(header)
    if asked_s is None or asked_s <= 0:
        raise InvalidRequest(
            f"X-Request-Timeout must be seconds, a number above 0; got '{header[:40]}'",
            param="X-Request-Timeout",
        )
    return min(asked_s, most_s)
