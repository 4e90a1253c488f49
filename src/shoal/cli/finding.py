"""What one check of `shoal doctor` saw, and how a check is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from shoal.errors import ShoalError

Verdict = Literal["ok", "warn", "fail"]


class Finding(msgspec.Struct, frozen=True):
    """What one check saw. `todo` says what to do about it."""

    check: str
    verdict: Verdict
    seen: str
    todo: str = ""


Check: TypeAlias = Callable[[], Finding]


def attempt(name: str, check: Check) -> Finding:
    """Run a check; whatever it raises becomes a finding, so that the others still run."""
    try:
        return check()
    except (ShoalError, OSError) as error:
        return Finding(name, "fail", str(error), "see the message")
