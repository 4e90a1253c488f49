"""Whether the numbers of a grammar may have the steps that it says (`multipleOf`): what these cost is bounded.

llguidance follows a number's remainder, digit by digit: a state for each that there is, 30 to 50 µs and 0.5 kB,
all of them before the first token, and 41 bytes of schema may ask for a million.
"""

from __future__ import annotations

import re
from math import lcm

from shoal.errors import InvalidRequest

#: A second or two of the thread that compiles, and some megabytes.
MOST_STATES = 30_000
#: Steps of JSON have no more digits in llguidance.
_MOST_DIGITS = 15
_STEP = re.compile(r'"multipleOf"\s*:\s*-?(\d+)(?:\.(\d+))?')
#: Parts that are put together have the least common multiple of their steps.
_TOGETHER = re.compile(r'"(?:\$ref|allOf|anyOf|oneOf)"')
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")


def check_steps(grammar: str) -> None:
    """Of a JSON schema, or a grammar that has some inside. Raises `InvalidRequest` where there are too many."""
    plain = _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), grammar)
    steps = [_whole(match[1], match[2] or "") for match in _STEP.finditer(plain)]
    if not steps:
        return
    needed = sum(map(_states, steps)) + len(_TOGETHER.findall(plain)) * _states(lcm(*steps))
    if needed > MOST_STATES:
        raise InvalidRequest(
            f"the grammar cannot be kept: its steps of numbers (`multipleOf`, and what is common to those of "
            f"parts that are put together) need about {needed:.2g} states, and {MOST_STATES} are the "
            "most; take smaller or rounder ones, or check them afterwards"
        )


def _whole(before: str, after: str) -> int:
    """A step without its point: 0.25 has the remainders of 25."""
    return int((before + after).lstrip("0")[: _MOST_DIGITS + 1] or 1)


def _states(step: int) -> int:
    """About as many as were measured: of zeros at the end each adds few."""
    zeros = len(str(step)) - len(str(step).rstrip("0"))
    return int(step // 10**zeros * (1 + zeros) ** 2)
