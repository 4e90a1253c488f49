"""What the runtime says and refuses, and what it does with memory."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import shoal
from shoal.errors import ConfigError, InvalidRequest, ShoalError, UnknownModel
from shoal.runtimes.base import OutOfMemory, Runtime
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import to_wire
from shoal.wire.socket import AddAdapter, RemoveAdapter, Run
from tests.runtimes.torch import made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    made.save_bert(folder)
    return folder


@pytest.fixture
def loaded(runtime: TorchRuntime, folder: Path) -> TorchRuntime:
    runtime.load(made.load(folder))
    return runtime


def test_hello(runtime: Runtime) -> None:
    hello = runtime.hello()
    assert (hello.kind, hello.version, hello.device) == ("torch", shoal.__version__, "cpu")
    assert (hello.capabilities.batching, hello.capabilities.inputs) == ("ours", "tokens")
    assert "bert" in hello.capabilities.families


@pytest.mark.parametrize("device", ["cuda:99", "tpu", "nonsense"])
def test_a_device_that_is_not_there(device: str) -> None:
    with pytest.raises(ConfigError, match=f"no device '{device}'"):
        TorchRuntime(device)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"family": "brt"}, "no family 'brt'.*did you mean 'bert'"),
        ({"heads": {"dence": {}}}, "no head 'dence'.*did you mean 'dense'"),
        ({"heads": {"dense": {"pooling": "meen"}}}, "no pooling 'meen'.*did you mean 'mean'"),
        ({"dtype": "int3"}, "unknown dtype 'int3'"),
        ({"max_tokens": 65}, "max_tokens is 65, but the model's positions allow 1 to 64"),
        ({"max_tokens": 0}, "allow 1 to 64"),
        ({"options": {"inputs": "text"}}, "no options for .* nothing; its profile gives inputs"),
    ],
)
def test_a_load_that_cannot_be(
    runtime: TorchRuntime, folder: Path, change: dict[str, object], said: str
) -> None:
    with made.load_fails(said):
        runtime.load(made.load(folder, **change))
    assert runtime.stats().models == {}


def test_a_model_uses_the_threads_of_its_profile(runtime: TorchRuntime, folder: Path) -> None:
    runtime.load(made.load(folder))
    runtime.load(made.load(folder, model="wide", threads=2))
    for model, threads in (("wide", 2), ("m", 1), ("wide", 2)):
        made.run(runtime, [[1, 2]], model)
        assert torch.get_num_threads() == threads
    made.run(runtime, [[1, 2]])  # as it was: the number is the whole process's


def test_a_load_beside_batches_leaves_their_threads_alone(folder: Path) -> None:
    runtime = TorchRuntime(threads=2)
    runtime.load(made.load(folder))
    made.run(runtime, [[1, 2]])
    loaders: list[int] = []

    def load() -> None:
        runtime.load(made.load(folder, model="n"))
        loaders.append(torch.get_num_threads())

    loader = threading.Thread(target=load)
    loader.start()
    loader.join()
    assert (loaders, torch.get_num_threads()) == ([1], 2)
    assert set(runtime.stats().models) == {"m", "n"}


def test_stats_tell_what_is_held(loaded: TorchRuntime, folder: Path) -> None:
    second = loaded.load(made.load(folder, model="n"))
    made.run(loaded, [[1]])
    stats = loaded.stats()
    assert stats.models["n"] == second.bytes > (folder / "model.safetensors").stat().st_size * 0.9
    assert (set(stats.models), stats.batches) == ({"m", "n"}, 1)
    assert stats.rss_bytes > 1_000_000


def test_unload(loaded: TorchRuntime) -> None:
    loaded.unload("m")
    assert loaded.stats().models == {}
    with pytest.raises(UnknownModel):
        loaded.unload("m")
    with pytest.raises(UnknownModel):
        made.run(loaded, [[1]])


def test_items_that_cannot_be_computed_fail_alone(loaded: TorchRuntime) -> None:
    good = made.random_items([5, 64, 1])
    bad = {1: [made.VOCABULARY], 2: [], 4: [1, -1, 2], 6: [1] * 65}
    items = [good[0], bad[1], bad[2], good[1], bad[4], good[2], bad[6]]
    done = made.run(loaded, items)
    assert {item: error.code for item, error in done.failed.items()} == {
        1: "invalid_item",
        2: "invalid_item",
        4: "invalid_item",
        6: "too_many_tokens",
    }
    assert "token id 101" in done.failed[1].message
    assert "65 tokens; m takes 64" in done.failed[6].message
    ours = made.vectors(done)
    np.testing.assert_allclose(ours[[0, 3, 5]], made.vectors(made.run(loaded, good)), atol=1e-6)
    assert not ours[[1, 2, 4, 6]].any()


def test_a_batch_of_bad_items_only(loaded: TorchRuntime) -> None:
    done = made.run(loaded, [[], [made.VOCABULARY]])
    assert set(done.failed) == {0, 1}
    assert done.computed_tokens == 0


def test_adapters_are_refused(loaded: TorchRuntime) -> None:
    with pytest.raises(ShoalError, match="takes no adapters"):
        loaded.add_adapter(AddAdapter("m", "a", "/nowhere"))
    with pytest.raises(ShoalError, match="holds no adapters"):
        loaded.remove_adapter(RemoveAdapter("m", "a"))
    ints = to_wire(np.array([1], np.int32))
    with pytest.raises(InvalidRequest, match="takes no adapters"):
        loaded.run(Run(1, "m", ["dense"], ints, ints, adapters=["a"]))


@pytest.mark.skipif(sys.platform != "linux", reason="limits address space as Linux does")
def test_no_memory_for_a_batch(runtime: TorchRuntime, tmp_path: Path) -> None:
    made.save_bert(tmp_path, hidden_size=1024, max_position_embeddings=4096, num_hidden_layers=1)
    runtime.load(made.load(tmp_path, max_tokens=4096))
    item = [1] * 4096
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    gc.collect()
    runtime.stats()  # gives back what tests before this one left free, which would be enough
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (8 << 20), hard))
    try:
        with pytest.raises(OutOfMemory, match="no memory for 1 items of 4096 tokens"):
            made.run(runtime, [item])
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert not made.run(runtime, [item]).failed


@pytest.mark.skipif(sys.platform != "linux", reason="limits address space as Linux does")
def test_no_memory_for_a_model(tmp_path: Path) -> None:
    made.save_bert(tmp_path, hidden_size=1024, num_hidden_layers=4, intermediate_size=4096)
    told = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("out_of_memory m did not fit: ")
    assert told.stdout.splitlines()[1:] == ["{}"]


FULL = """
import resource, sys
from shoal.runtimes.base import OutOfMemory
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.socket import Load

runtime = TorchRuntime()
pages = int(open("/proc/self/statm").read().split()[0])
# The file itself is mapped too; what its tensors are copied to does not fit.
limit = pages * resource.getpagesize() + (230 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    runtime.load(Load("m", sys.argv[1], "bert", {"dense": {}}, max_tokens=64))
except OutOfMemory as error:
    print(error.code, error.message)
    print(runtime.stats().models)
"""

MEMORY = """
import sys
import numpy
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import to_wire
from shoal.wire.socket import Load, Run

runtime = TorchRuntime()

def cycle():
    load = Load("m", sys.argv[1], "bert", {"dense": {}}, max_tokens=64)
    said = runtime.load(load).bytes
    held = runtime.stats().rss_bytes
    for length in (3, 21, 64):
        lengths = numpy.full(4, length, numpy.int32)
        tokens = numpy.arange(lengths.sum(), dtype=numpy.int32)
        runtime.run(Run(1, "m", ["dense"], to_wire(tokens), to_wire(lengths)))
    runtime.unload("m")
    return said, held, runtime.stats().rss_bytes

cycle()
print(runtime.stats().rss_bytes, *cycle(), *cycle())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_unloading_gives_memory_back(tmp_path: Path) -> None:
    made.save_bert(
        tmp_path, hidden_size=512, intermediate_size=2048, num_hidden_layers=3, vocab_size=8000
    )
    told = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    before, said, held, after, _, held_again, after_again = map(int, told.stdout.split())
    assert held - before < said * 1.1
    assert abs(after - before) < said / 10
    # A leak would be the whole model; pages that the allocator keeps back vary by some megabytes.
    assert abs(held_again - held) < said / 4
    assert abs(after_again - after) < said / 4
