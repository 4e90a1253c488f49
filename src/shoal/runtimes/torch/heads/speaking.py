"""What a decoder of speech is to the head that asks it; families build one.

A clip is heard once, then tokens are said one after the other, of several clips at a time.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor


class Speaker(Protocol):
    """A loaded decoder.

    Attributes:
        most_tokens: of a text, those included that it begins with.
        bytes_per_token: memory that one row of what is heard takes.
    """

    most_tokens: int
    bytes_per_token: int

    def listen(self, hidden: Tensor) -> Any:
        """What is kept of clips, hidden [clips, frames, width].

        Its ``keep(clips)`` is that of some; after its ``forget()`` nothing was said yet.
        """

    def say(self, tokens: Tensor, memory: Any) -> Tensor:
        """Logits of the next token, [clips, vocabulary] float32, after `tokens` [clips, n] more."""
