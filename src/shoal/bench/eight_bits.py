"""Cards whose models can be asked in 8 bits, also those that have no such profile since too much moves by it."""

from __future__ import annotations

import msgspec

from shoal.catalog.card import Card, Profile
from shoal.catalog.choice import is_graphed

PROFILE = "onnx-int8"


def in_8_bits(card: Card) -> Card:
    """The card with that profile; as it is where it has one, or where no graph is made of its model."""
    if PROFILE in card.profiles or not is_graphed(card):
        return card
    own = {PROFILE: Profile("onnx", options={"weights": "int8"})}
    return msgspec.structs.replace(card, profiles=card.profiles | own)
