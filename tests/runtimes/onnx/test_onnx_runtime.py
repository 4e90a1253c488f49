"""The runtime's messages; what it reads is in test_reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from shoal.errors import InvalidRequest, ModelLoadFailed, UnknownModel
from shoal.runtimes.onnx.runtime import OnnxRuntime
from shoal.runtimes.process import rss_bytes, trim
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.socket import AddAdapter, RemoveAdapter, Run

from . import graphs
from .graphs import RED, picture

ONE_LINE = picture(900, 800, ((100, 100, 400, 130), RED))
BLANK = picture(900, 800)


def run(*items: Any, **changes: Any) -> Run:
    fields: dict[str, Any] = {"batch": 7, "model": "m", "heads": ["extract"]}
    fields |= {"tokens": to_wire(np.zeros(0, np.int32))}
    fields |= {"lengths": to_wire(np.zeros(len(items), np.int32))}
    return Run(**(fields | {"inputs": [to_wire(item) for item in items]} | changes))


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> OnnxRuntime:
    made = OnnxRuntime(threads=1)
    made.load(graphs.load(tmp_path_factory.mktemp("m")))
    return made


def test_hello(runtime: OnnxRuntime) -> None:
    hello = runtime.hello()
    assert (hello.kind, hello.device, hello.capabilities.inputs) == ("onnx", "cpu", "tokens")
    assert "ppocr" in hello.capabilities.families


def test_each_item_has_its_rows(runtime: OnnxRuntime) -> None:
    before = runtime.stats().batches
    done = runtime.run(run(ONE_LINE, BLANK, ONE_LINE))
    rows, lengths = from_wire(done.arrays["extract"]), from_wire(done.lengths["extract"])
    assert (done.batch, done.failed, lengths.tolist()) == (7, {}, [1, 0, 1])
    assert rows.dtype == np.float32
    assert rows.shape == (2, 11)
    np.testing.assert_array_equal(rows[0], rows[1])
    assert done.seconds > 0
    assert done.computed_tokens > 3 * 700
    assert runtime.stats().batches == before + 1


@pytest.mark.parametrize(
    "bad",
    [
        np.zeros((8, 8, 3), np.float32),
        np.zeros((8, 8), np.uint8),
        np.zeros((0, 8, 3), np.uint8),
        np.zeros((2000, 2000, 3), np.uint8),  # more than the model was loaded for
        np.zeros(0, np.int32),  # an item of tokens
    ],
)
def test_a_bad_item_fails_alone(runtime: OnnxRuntime, bad: Any) -> None:
    done = runtime.run(run(ONE_LINE, bad, ONE_LINE))
    assert list(done.failed) == [1]
    assert done.failed[1].code == "invalid_item"
    assert from_wire(done.lengths["extract"]).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": None}, "takes decoded media"),
        ({"heads": ["extrac"]}, "without head 'extrac'; it has extract .did you mean 'extract'"),
    ],
)
def test_a_batch_that_makes_no_sense(
    runtime: OnnxRuntime, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        runtime.run(run(ONE_LINE, **change))


def test_no_adapters(runtime: OnnxRuntime) -> None:
    with pytest.raises(InvalidRequest):
        runtime.add_adapter(AddAdapter("m", "a", "/a"))
    with pytest.raises(InvalidRequest):
        runtime.remove_adapter(RemoveAdapter("m", "a"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"family": "ppocrs"}, "no family 'ppocrs'; it has ppocr, .* .did you mean 'ppocr'"),
        ({"options": {"x": 1}}, "a reader has no options, and got x"),
        ({"path": "/no such folder"}, "/no such folder/detection.onnx cannot be read"),
    ],
)
def test_what_cannot_be_loaded(
    runtime: OnnxRuntime, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    load = msgspec.structs.replace(graphs.load(tmp_path, "other"), **change)
    with pytest.raises(ModelLoadFailed, match=message):
        runtime.load(load)
    assert "other" not in runtime.stats().models


def test_unload_forgets_it(tmp_path: Path) -> None:
    runtime = OnnxRuntime()
    loaded = runtime.load(graphs.load(tmp_path))
    assert runtime.stats().models == {"m": loaded.bytes}
    runtime.unload("m")
    assert runtime.stats().models == {}
    with pytest.raises(UnknownModel):
        runtime.run(run(ONE_LINE))


def test_what_a_pass_took_goes_back(runtime: OnnxRuntime) -> None:
    """One of 1.8 million pixels takes 22 MB for its input alone."""
    runtime.run(run(BLANK))
    trim()
    before = rss_bytes()
    for _ in range(3):
        runtime.run(run(np.full((1400, 1300, 3), 255, np.uint8)))
    trim()
    assert rss_bytes() - before < 15e6
