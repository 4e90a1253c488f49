"""Every task and output through both clients, over real sockets."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shoal.client import Entity, Extraction, Limits, Sparse
from shoal.client.images import is_image
from shoal.errors import ComputeFailed, InvalidItem, InvalidRequest, ProtocolError
from tests.client.conftest import Ask
from tests.client.scripted import ScriptedGateway, item_error, packed, says

M = "a-model"


def test_scores_come_in_the_order_of_documents(ask: Ask, gateway: ScriptedGateway) -> None:
    scores = ask(
        lambda c: c.score("org/r", "what?", ["3", "1", "2"], raw=True, user="Zoë"),
        limits=Limits(request_items=2, in_flight=1),
    )
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, [0.03, 0.01, 0.02])
    first, second = gateway.seen
    assert first.path == "/v1/score/org/r"
    assert first.body == {
        "query": "what?",
        "params": {"raw": True, "truncate": True},
        "items": ["3", "1"],
    }
    assert second.body["query"] == "what?"
    assert second.headers["x-user"] == "Zoë"


def test_details_of_scores(ask: Ask, gateway: ScriptedGateway) -> None:
    body = {"items": [{"score": 0.5}, item_error("compute_failed", "no"), {"score": 0.75}]}
    gateway.script.append(says(packed(body)))
    scored = ask(lambda c: c.score_detailed(M, "q", ["1", "2", "3"]))
    assert scored.scores.tolist() == [0.5, 0.75]
    assert scored.positions.tolist() == [0, 2]
    assert scored.ranked().tolist() == [2, 0]
    assert list(scored.errors) == [1]
    gateway.script.append(says(packed(body)))
    with pytest.raises(ComputeFailed, match=r"items\[1\]: no"):
        ask(lambda c: c.score(M, "q", ["1", "2", "3"]))


def test_no_documents_ask_nothing(ask: Ask, gateway: ScriptedGateway) -> None:
    assert ask(lambda c: c.score(M, "q", [])).shape == (0,)
    assert ask(lambda c: c.extract(M, [])) == []
    assert gateway.seen == []


def test_extractions_are_plain_objects(ask: Ask, gateway: ScriptedGateway) -> None:
    found = ask(lambda c: c.extract(M, ["7", "8"], labels=["x", "y"], threshold=0.25))
    assert found[1] == Extraction(entities=[Entity("8", "N", 0.5, 0, 1)])
    assert gateway.seen[0].body["params"] == {
        "labels": ["x", "y"],
        "threshold": 0.25,
        "truncate": True,
    }
    ask(lambda c: c.extract(M, "7", labels="person", multi_label=True))
    assert gateway.seen[1].body["params"]["labels"] == ["person"]


def test_details_of_extractions(ask: Ask, gateway: ScriptedGateway) -> None:
    heard = {"text": "hello", "language": "en", "segments": [], "tokens": 3}
    body = {"items": [item_error("compute_failed", "no"), heard]}
    gateway.script.append(says(packed(body)))
    extracted = ask(lambda c: c.extract_detailed(M, [b"a", b"b"]))
    assert extracted.found == [Extraction(text="hello", language="en", segments=[])]
    assert extracted.positions.tolist() == [1]
    assert extracted.tokens.tolist() == [0, 3]
    assert not extracted.truncated.any()
    gateway.script.append(says(packed({"items": [{"tokens": 1}]})))
    with pytest.raises(ProtocolError, match="neither"):
        ask(lambda c: c.extract(M, ["a"]))


def test_every_output_of_one_pass(ask: Ask, gateway: ScriptedGateway) -> None:
    outputs = ["dense", "sparse", "multivector"]
    encoded = ask(lambda c: c.encode_detailed(M, ["7", "8"], outputs=outputs))
    assert encoded.vectors[:, 0].tolist() == [7, 8]
    first, second = encoded.outputs["sparse"]
    assert isinstance(first, Sparse)
    assert (first.indices.tolist(), first.values.tolist()) == ([7], [0.5])
    assert second.indices.tolist() == [8]
    assert [rows.shape for rows in encoded.outputs["multivector"]] == [(2, 4)] * 2
    assert gateway.seen[0].body["params"]["outputs"] == outputs
    unasked = ask(lambda c: c.encode_detailed(M, ["7"]))
    assert "outputs" not in gateway.seen[1].body["params"]
    assert unasked.outputs == {}
    terms = ask(lambda c: c.encode_detailed(M, ["7"], outputs=["sparse"]))
    assert terms.vectors.shape == (0, 0)
    with pytest.raises(InvalidRequest, match="encode_detailed"):
        ask(lambda c: c.encode(M, ["7"], outputs=["sparse"]))


@pytest.mark.parametrize(
    ("dtype", "kept", "restored"),
    [
        ("int8", np.int8, [[3.5] * 4, [4.0] * 4]),
        ("uint8", np.uint8, [[3.0] * 4, [3.5] * 4]),
        ("float16", np.float16, [[7.0] * 4, [8.0] * 4]),
        ("binary", np.uint8, [[-1, -1, -1, -1, -1, 1, 1, 1], [-1, -1, -1, -1, 1, -1, -1, -1]]),
    ],
)
def test_quantised_vectors_can_be_restored(
    ask: Ask, gateway: ScriptedGateway, dtype: str, kept: Any, restored: Any
) -> None:
    encoded = ask(lambda c: c.encode_detailed(M, ["7", "8"], dtype=dtype))
    assert encoded.vectors.dtype == kept
    assert encoded.restored().dtype == np.float32
    assert encoded.restored().tolist() == restored
    assert ask(lambda c: c.encode(M, "7", dtype=dtype)).dtype == kept


def test_quantised_vectors_of_tokens_keep_their_scales(ask: Ask, gateway: ScriptedGateway) -> None:
    rows = {"dtype": "int8", "shape": [2, 2], "data": b"\x02\x04\x06\x08", "scale": [0.5, 0.25]}
    fixed = {"dtype": "int8", "shape": [2], "data": b"\x02\x04", "scale": 0.5}
    gateway.script.append(says(packed({"items": [{"multivector": rows, "fde": fixed}]})))
    outputs = ask(lambda c: c.encode_detailed(M, ["1"], dtype="int8")).outputs
    assert outputs["multivector"][0].tolist() == [[2, 4], [6, 8]]
    assert outputs["multivector.scale"][0].tolist() == [0.5, 0.25]
    assert outputs["fde"][0].tolist() == [2, 4]
    assert outputs["fde.scale"][0] == 0.5


def test_only_what_was_encoded_is_restored(ask: Ask, gateway: ScriptedGateway) -> None:
    tensor = {"dtype": "int8", "shape": [2], "data": b"\x02\x04", "scale": 0.5}
    body = {"items": [item_error("compute_failed", "no"), {"dense": tensor}]}
    gateway.script.append(says(packed(body)))
    encoded = ask(lambda c: c.encode_detailed(M, ["1", "2"], dtype="int8"))
    assert encoded.restored().tolist() == [[1.0, 2.0]]


def test_files_and_images_go_as_bytes(ask: Ask, gateway: ScriptedGateway, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"7")
    pixels = np.zeros((2, 3, 3), np.uint8)
    pixels[0, 1] = (255, 128, 7)
    image = Image.fromarray(pixels)
    heard = {"text": "", "segments": []}
    gateway.script.append(says(packed({"items": [heard] * 5})))
    given = [path, image, pixels, image.convert("CMYK"), pixels[:, :, :1]]
    ask(lambda c: c.extract(M, given))
    sent = gateway.seen[0].body["items"]
    assert sent[0] == b"7"
    for data in sent[1:3]:
        assert np.array_equal(np.array(Image.open(io.BytesIO(data))), pixels)
    assert Image.open(io.BytesIO(sent[3])).mode == "RGB"
    assert Image.open(io.BytesIO(sent[4])).mode == "L"
    gateway.script.append(says(packed({"items": [heard]})))
    ask(lambda c: c.extract(M, image))
    assert len(gateway.seen[1].body["items"]) == 1


def test_an_image_keeps_which_side_is_up(ask: Ask, gateway: ScriptedGateway) -> None:
    image = Image.new("RGB", (2, 3))
    exif = Image.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    image.save(file, "JPEG", exif=exif)
    gateway.script.append(says(packed({"items": [{"text": ""}]})))
    ask(lambda c: c.extract(M, Image.open(file)))
    (sent,) = gateway.seen[0].body["items"]
    assert Image.open(io.BytesIO(sent)).getexif()[0x0112] == 6


def test_what_cannot_be_sent(ask: Ask, gateway: ScriptedGateway) -> None:
    with pytest.raises(InvalidItem, match=r"items\[1\]: /nowhere/x: No such file"):
        ask(lambda c: c.encode(M, ["1", Path("/nowhere/x")]))
    with pytest.raises(InvalidItem, match="query is of type NoneType"):
        ask(lambda c: c.score(M, None, ["1"]))
    assert gateway.seen == []


def test_arrays_that_are_no_images() -> None:
    assert not is_image(np.zeros((2, 3), np.uint8))
    assert not is_image(np.zeros((2, 3, 3), np.float32))
    assert not is_image("text")
    assert "PIL.Image" in sys.modules
