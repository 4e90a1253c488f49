from __future__ import annotations

import msgspec

from shoal.catalog.depth import MOST_LAYERS, unlikely_depth


class Tower(msgspec.Struct):
    encoder_layers: int = 2


class Config(msgspec.Struct):
    num_hidden_layers: int = 2
    no_rope_layers: list[int] = []
    vision: Tower = msgspec.field(default_factory=Tower)


def test_what_no_model_has() -> None:
    assert unlikely_depth(Config()) is None
    assert unlikely_depth(Config(MOST_LAYERS, [MOST_LAYERS + 1], Tower(0))) is None
    assert (
        unlikely_depth(Config(MOST_LAYERS + 1))
        == "num_hidden_layers is 10001; 0 to 10000 are taken"
    )
    assert unlikely_depth(Config(vision=Tower(-1))) == "encoder_layers is -1; 0 to 10000 are taken"
