"""The benchmark of images in two forms, small: real processes, every answer compared."""

from __future__ import annotations

import base64
import io

import msgspec
import pytest
from PIL import Image

from shoal.bench import images


@pytest.mark.timeout(180)
def test_both_forms_are_answered_alike_and_one_is_a_third_larger() -> None:
    result = images.measure(images.Plan(images=4, rounds=1, real=False), lambda line: None)
    assert result.problems == []
    binary, text = result.measured
    assert text.wire_bytes / binary.wire_bytes == pytest.approx(4 / 3, abs=0.01)
    for measured in result.measured:
        (round_,) = measured.rounds
        assert len(round_.latency_s) == 4
        assert round_.gateway_ms > 0
        assert round_.worker_ms > 0
        assert round_.peak_mb >= 0
    assert images.table(result).count("| fake-images") == 2


def test_an_image_is_drawn_as_large_as_it_is_called_and_the_same_from_its_seed() -> None:
    image = images.photograph(3)
    assert image == images.photograph(3) != images.photograph(4)
    assert len(image) == pytest.approx(4e6, rel=0.05)
    assert Image.open(io.BytesIO(image)).size == (images.WIDTH, images.HEIGHT)


def test_both_forms_hold_the_image() -> None:
    bodies = {
        form: images.request("m", b"\xff\xd8 image", form).partition(b"\r\n\r\n")[2]
        for form in images.FORMS
    }
    assert msgspec.msgpack.decode(bodies["MessagePack"])["items"] == [b"\xff\xd8 image"]
    (item,) = msgspec.json.decode(bodies["base64 JSON"])["items"]
    assert base64.b64decode(item["image"]) == b"\xff\xd8 image"
