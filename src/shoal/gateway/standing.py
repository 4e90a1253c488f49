"""What a request says of its own turn: tenant, priority, class.

Decides which of these are well-formed and what a user is called inside Shoal. It must not know how
turns are taken: that is `core.fairness`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import get_args

import msgspec

from shoal.errors import InvalidRequest
from shoal.gateway.request import Request
from shoal.spelling import nearest
from shoal.values import TrafficClass, whole_number

PRIORITY_MOST = 10
CLASSES: tuple[TrafficClass, ...] = get_args(TrafficClass)
#: A user is a name of the caller's own, of any length and perhaps a person's: only this much of a
#: digest of it travels. Of 1,000 users two are taken for one with a chance of 1 in 8,600.
TAG_BYTES = 4


class Standing(msgspec.Struct, frozen=True):
    """Whose turn a request takes, and where in it; see `Unit` for each."""

    tenant: str = ""
    priority: int = 0
    klass: TrafficClass = "work"


def standing_of(request: Request) -> Standing:
    """From a request's key, user and headers.

    Raises:
        InvalidRequest: `X-Priority` or `X-Class` is none.
    """
    user = request.user
    tag = blake2b(user, digest_size=TAG_BYTES).hexdigest() if user else ""
    tenant = f"{request.key_name}/{tag}" if tag else request.key_name
    return Standing(tenant, _priority(request), asked_class(request))


def asked_class(request: Request) -> TrafficClass:
    """What `X-Class` asks for. Raises `InvalidRequest`."""
    if b"x-class" not in request.headers:
        return "work"
    asked = request.text_header(b"x-class")
    for klass in CLASSES:
        if asked == klass:
            return klass
    raise InvalidRequest(
        f"X-Class must be {' or '.join(CLASSES)}; got '{asked[:40]}'{nearest(asked, CLASSES)}",
        param="X-Class",
    )


def _priority(request: Request) -> int:
    if b"x-priority" not in request.headers:
        return 0
    asked = request.text_header(b"x-priority")
    priority = whole_number(asked)
    if priority is None or abs(priority) > PRIORITY_MOST:
        raise InvalidRequest(
            f"X-Priority must be a whole number from -{PRIORITY_MOST} to {PRIORITY_MOST}; "
            f"got '{asked[:40]}'",
            param="X-Priority",
        )
    return priority
