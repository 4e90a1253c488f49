from __future__ import annotations

import pytest

from shoal.bench.packing import models
from shoal.catalog.parse import parse_card


def test_models_differ_in_size_and_load_time_and_six_fit() -> None:
    catalog = models.made(20)
    assert len({m.bytes for m in catalog}) == len({m.load_s for m in catalog}) == 20
    budget = models.budget(catalog, 6.0)
    assert max(m.bytes for m in catalog) < budget
    assert sum(m.bytes for m in catalog) / budget == pytest.approx(20 / 6)
    assert models.made(20) == catalog


def test_a_card_says_what_the_model_holds() -> None:
    model = models.made(3)[1]
    card = parse_card(model.card(999), "card.yaml")
    options = card.profiles["default"].options
    assert (options["bytes"], options["device_bytes"], options["holds"]) == (model.bytes, 999, True)
    assert card.name == model.name
