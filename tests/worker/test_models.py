"""Cards as the core sees them: how large a model is thought to be before it was loaded."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from shoal.catalog.card import Card, Memory, Profile, Source
from shoal.catalog.fetch import cached
from shoal.catalog.resolve import Catalog
from shoal.catalog.tasks import Dense, EncodeTask, GenerateTask, Tasks
from shoal.core.memory import LaneMemory
from shoal.core.models import ModelState
from shoal.errors import ConfigError, ModelLoadFailed
from shoal.settings import CommonSettings
from shoal.values import features_of
from shoal.worker.models import LOAD_BASE_S, LOAD_BYTES_S, loaded_of, spec_of
from tests.runtimes.torch.made import save_bert


@pytest.fixture
def card(tmp_path: Path) -> Card:
    """A card of the folder `tmp_path`, with weights in two files of 1000 bytes each."""
    for name in ("a.safetensors", "b.bin", "readme.md"):
        (tmp_path / name).write_bytes(bytes(1000))
    tasks = Tasks(encode=EncodeTask(dense=Dense(8)))
    return Card("m", Source(dir=str(tmp_path)), "fake", tasks, 512, min_replicas=2)


def test_weights_on_disk_are_the_estimate(card: Card) -> None:
    spec = spec_of(card, card.profile("cpu"), cached(card, None))
    assert (spec.bytes_estimate, spec.min_replicas, spec.fetched) == (2000, 2, True)
    assert spec.load_s_estimate == LOAD_BASE_S + 2000 / LOAD_BYTES_S


def test_the_card_is_believed_until_its_files_are_here(card: Card) -> None:
    card = msgspec.structs.replace(card, memory=Memory(weights_mb=1.5))
    assert spec_of(card, card.profile("cpu")).bytes_estimate == 1_500_000
    assert spec_of(card, card.profile("cpu"), cached(card, None)).bytes_estimate == 2000


@pytest.mark.parametrize(
    ("dtype", "device", "numbers"),
    [("auto", "cpu", 4), ("auto", "cuda:0", 2), ("float16", "cpu", 2)],
)
def test_tensors_count_as_they_will_be_loaded(
    card: Card, tmp_path: Path, dtype: str, device: str, numbers: int
) -> None:
    """Halves on disk are whole on a CPU, and the other way round on a GPU; ids stay what they are."""
    tensors: dict[str, NDArray[Any]] = {"half": np.zeros((10, 10), np.float16)}
    tensors |= {"whole": np.zeros(50, np.float32), "ids": np.zeros(7, np.int64)}
    save_file(tensors, tmp_path / "a.safetensors")
    profile = msgspec.convert({"dtype": dtype}, Profile)
    spec = spec_of(card, profile, tmp_path, device)
    assert spec.bytes_estimate == 1000 + 7 * 8 + 150 * numbers
    assert spec.load_s_estimate > LOAD_BASE_S + 1000 / LOAD_BYTES_S


def test_other_runtimes_hold_files_as_they_are(card: Card, tmp_path: Path) -> None:
    save_file({"half": np.zeros((10, 10), np.float16)}, tmp_path / "a.safetensors")
    spec = spec_of(card, Profile("fake"), tmp_path)
    size = (tmp_path / "a.safetensors").stat().st_size
    assert (spec.bytes_estimate, spec.reserve_bytes) == (size + 1000, 0)


@pytest.mark.parametrize(
    ("profile", "device", "places", "width"),
    [
        (Profile(sequences=2), "cpu", 2 * 1024, 4),
        (Profile(sequences=1), "cuda:0", 1500, 2),
        (Profile(sequences=2, options={"cache_tokens": 99}), "cpu", 99, 4),
        (Profile("fake", sequences=2), "cpu", 0, 4),
    ],
)
def test_texts_need_room_for_their_keys(
    card: Card, tmp_path: Path, profile: Profile, device: str, places: int, width: int
) -> None:
    heads = {"num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 64}
    (tmp_path / "config.json").write_bytes(msgspec.json.encode({"num_hidden_layers": 3} | heads))
    card = msgspec.structs.replace(card, max_tokens=1500)
    writes = msgspec.structs.replace(card, tasks=Tasks(generate=GenerateTask()))
    without, beside = (spec_of(c, profile, tmp_path, device).reserve_bytes for c in (card, writes))
    assert beside - without == places * 3 * 2 * 2 * 8 * width


def test_what_is_read_and_what_is_written_need_room_each(card: Card, tmp_path: Path) -> None:
    """One layer of T5's decoder, three of its encoder."""
    config = {"num_layers": 3, "num_decoder_layers": 1, "num_heads": 6, "d_kv": 16, "d_model": 32}
    (tmp_path / "config.json").write_bytes(msgspec.json.encode(config))
    tasks = Tasks(generate=GenerateTask())
    card = msgspec.structs.replace(card, family="t5", max_tokens=512, tasks=tasks)
    one, two = (spec_of(card, Profile(sequences=n), tmp_path, "cpu").reserve_bytes for n in (1, 2))
    assert two - one == 1024 * 2 * 6 * 16 * 4


def test_no_model_that_was_measured_holds_more_than_would_have_been_kept_for_it() -> None:
    """The real ones of the zoo that are here."""
    for card in Catalog.load().cards():
        folder, held_mb = cached(card, None), card.memory.held_mb
        if folder is not None and held_mb is not None:
            unknown = msgspec.structs.replace(card, memory=Memory())
            spec = spec_of(unknown, card.profile(), folder)
            kept = LaneMemory(10**12).needs(ModelState(spec).footprint)
            assert kept >= held_mb * 1e6 - 1e6, card.name


def test_what_was_measured_for_the_card_goes_before_both_and_is_sure(card: Card) -> None:
    card = msgspec.structs.replace(card, memory=Memory(weights_mb=1.5, held_mb=9))
    spec = spec_of(card, card.profile("cpu"), cached(card, None))
    assert (spec.bytes_estimate, spec.bytes_sure) == (9_000_000, True)
    assert ModelState(spec).footprint.sure
    assert spec.load_s_estimate == LOAD_BASE_S + 1_500_000 / LOAD_BYTES_S


def test_what_was_measured_for_a_profile_goes_before_that(card: Card) -> None:
    card = msgspec.structs.replace(card, memory=Memory(weights_mb=1.5, held_mb=9))
    spec = spec_of(card, Profile(runtime="gguf", held_mb=4))
    assert (spec.bytes_estimate, spec.bytes_sure) == (4_000_000, True)


def test_of_a_model_that_was_never_fetched_nothing_is_known(card: Card, tmp_path: Path) -> None:
    card = msgspec.structs.replace(card, source=Source(dir=str(tmp_path / "gone")))
    spec = spec_of(card, card.profile("cpu"), cached(card, None))
    assert (spec.bytes_estimate, spec.fetched) == (0, False)


def test_a_larger_image_is_predicted_to_cost_more(card: Card) -> None:
    card = msgspec.structs.replace(card, inputs=["image"])
    model = ModelState(spec_of(card, card.profile("cpu")))
    small, large = (model.cost.batch_s(features_of([tokens])) for tokens in (100, 400))
    assert large > small


def bert(folder: Path) -> Card:
    save_bert(folder)
    tasks = Tasks(encode=EncodeTask(dense=Dense(32)))
    return Card("m", Source(dir=str(folder)), "bert", tasks, 64)


def test_a_graph_is_made_where_a_profile_asks_for_one(tmp_path: Path) -> None:
    card = bert(tmp_path / "m")
    settings = CommonSettings(cache_dir=str(tmp_path / "cache"))
    made = [
        loaded_of(card, tmp_path / "m", Profile(runtime="onnx", options=options), settings)
        for options in ({}, {"weights": "int8"})
    ]
    assert all((folder / "model.onnx").is_file() for folder in made)
    assert made[0] != made[1]
    assert loaded_of(card, tmp_path / "m", Profile(), settings) == tmp_path / "m"


def test_a_card_with_another_width_than_its_model_is_told(tmp_path: Path) -> None:
    card = bert(tmp_path / "m")
    wrong = msgspec.structs.replace(card, tasks=Tasks(encode=EncodeTask(dense=Dense(33))))
    with pytest.raises(ModelLoadFailed, match=r"`dim: 33`, and .*config\.json says 32"):
        loaded_of(wrong, tmp_path / "m", Profile(), CommonSettings())


def test_graphs_of_pictures_are_the_models_own(tmp_path: Path) -> None:
    card = Catalog.load().card("pp-ocrv6-small")
    assert loaded_of(card, tmp_path, card.profile("cpu"), CommonSettings()) == tmp_path


def test_a_package_without_a_graph_ships_none(tmp_path: Path) -> None:
    card = bert(tmp_path / "m")
    profile = Profile(runtime="onnx", options={"weights": "shipped"})
    with pytest.raises(ConfigError, match="package of 'm' ships no graph; say float32 or int8"):
        loaded_of(card, tmp_path / "m", profile, CommonSettings())
