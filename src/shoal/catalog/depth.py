"""Whether a model's config says as many layers as there can be: what is laid out of each takes memory."""

from __future__ import annotations

import msgspec

#: Far more than any model has, and of so many the names and shapes take a moment.
MOST_LAYERS = 10_000


def unlikely_depth(config: msgspec.Struct) -> str | None:
    """The key that says too many, or fewer than none, wherever it stands, and what it says."""
    for name in config.__struct_fields__:
        value = getattr(config, name)
        if isinstance(value, msgspec.Struct):
            if (found := unlikely_depth(value)) is not None:
                return found
        elif name.endswith("layers") and type(value) is int and not 0 <= value <= MOST_LAYERS:
            return f"{name} is {value}; 0 to {MOST_LAYERS} are taken"
    return None
