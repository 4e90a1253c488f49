from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shoal.catalog.preprocessing import Size, SoundProcessing, image_processing, sound_processing
from shoal.errors import ModelLoadFailed


def written(folder: Path, said: Any, name: str = "preprocessor_config.json") -> Path:
    (folder / name).write_text(json.dumps(said))
    return folder


@pytest.mark.parametrize(
    ("family", "said", "resize", "shape"),
    [
        ("clip", {}, Size(shortest_edge=224), (224, 224)),
        ("clip", {"size": 32, "crop_size": [30, 28]}, Size(shortest_edge=32), (30, 28)),
        ("clip", {"size": 32, "do_center_crop": False}, Size(shortest_edge=32), None),
        ("siglip", {"size": {"height": 8, "width": 9}}, Size(8, 9), (8, 9)),
        ("vit", {"size": 16}, Size(16, 16), (16, 16)),
        ("vit", {"do_resize": False}, None, None),
        ("efficientnet", {"do_center_crop": True, "crop_size": 9}, Size(346, 346), (9, 9)),
    ],
)
def test_what_comes_out_is_known_beforehand(
    tmp_path: Path, family: str, said: Any, resize: Size | None, shape: tuple[int, int] | None
) -> None:
    processing = image_processing(written(tmp_path, said), family)
    assert processing.resize == resize
    assert processing.shape == shape


def test_a_processor_of_several_kinds_has_one_file(tmp_path: Path) -> None:
    said = {
        "processor_class": "WhisperProcessor",
        "feature_extractor": {"feature_size": 128},
        "image_processor": {"size": 16},
    }
    written(tmp_path, said, "processor_config.json")
    assert sound_processing(tmp_path) == SoundProcessing(feature_size=128)
    assert image_processing(tmp_path, "vit").shape == (16, 16)


@pytest.mark.parametrize(
    ("family", "said", "why"),
    [
        ("vit", {"size": {"longest_edge": 9}}, "size .*longest_edge.* is not supported"),
        ("clip", {"size": {"shortest_edge": 9, "longest_edge": 12}}, "size .* is not supported"),
        ("vit", {"size": "large"}, "size"),
        ("vit", {"resample": 6}, "resample 6 is no filter"),
        ("vit", {"do_center_crop": True}, "crop_size None lacks a height and a width"),
        ("vit", {"do_pad": True}, "`do_pad` is not supported"),
        ("vit", {"image_mean": [0.5]}, "image_mean"),
        ("bert", {}, "nothing is known of images for family 'bert'"),
    ],
)
def test_what_would_compute_otherwise_is_refused(
    tmp_path: Path, family: str, said: Any, why: str
) -> None:
    with pytest.raises(ModelLoadFailed, match=rf"preprocessor_config\.json.*{why}"):
        image_processing(written(tmp_path, said), family)


def test_a_folder_without_a_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadFailed, match=r"neither preprocessor_config\.json nor processor"):
        image_processing(tmp_path, "vit")
    written(tmp_path, {}, "processor_config.json")
    with pytest.raises(ModelLoadFailed, match="has no `image_processor`"):
        image_processing(tmp_path, "vit")
