"""From files as they come in to what a real runtime answers, against transformers."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from transformers import ViTConfig, ViTForImageClassification
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from shoal.catalog.card import Card, Input, Profile, Source
from shoal.catalog.tasks import Dense, EncodeTask, ExtractTask, Multivector, ScoreTask, Tasks
from shoal.errors import ComputeFailed, InvalidItem, InvalidRequest, ModelLoadFailed
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.settings import WorkerSettings
from shoal.tasks.encode import Item, Media
from shoal.tasks.fde import WIDTH
from shoal.values import EncodeParams, ExtractParams, ScoreParams, Speech
from shoal.wire.arrays import from_wire
from shoal.wire.outputs import read_outputs
from shoal.worker.batches import packed
from shoal.worker.media import DecodingPreparer, decoding
from shoal.worker.media.decoding import Decoded, ImageDecoder
from shoal.worker.models import load_of, preparer_of
from shoal.worker.prepared import Prepared
from tests.runtimes.torch import media, speech, vision
from tests.worker.media.drawn import picture, saved
from tests.worker.media.test_pages import pdf
from tests.worker.media.test_sound import saved as sound_file
from tests.worker.media.test_sound import tone
from tests.worker.media.tiny import clip, whisper


def clip_card(**changes: Any) -> Card:
    fields: dict[str, Any] = {
        "inputs": ["text", "image"],
        "tasks": Tasks(EncodeTask(Dense(20))),
        "max_tokens": 12,
    }
    return Card("m", Source(dir="."), "clip", **(fields | changes))


def whisper_card(**changes: Any) -> Card:
    fields: dict[str, Any] = {
        "inputs": ["audio"],
        "tasks": Tasks(extract=ExtractTask("transcript")),
        "max_tokens": speech.FRAMES // 2,
    }
    return Card("m", Source(dir="."), "whisper", **(fields | changes))


def preparer(card: Card, folder: Path, **settings: Any) -> DecodingPreparer:
    made = preparer_of(card, folder, Profile(), "tokens", WorkerSettings(**settings))
    assert isinstance(made, DecodingPreparer)
    return made


def test_texts_and_files_become_the_vectors_of_transformers(tmp_path: Path) -> None:
    model, card, runtime = clip(tmp_path), clip_card(), TorchRuntime()
    runtime.load(load_of(card, tmp_path, Profile()))
    images = [picture(61, 40), picture(40, 70, seed=9)]
    items: list[Item] = [
        Media(saved(images[0], "PNG"), "image"),
        "w7 w9 w11",
        Media(saved(images[1], "BMP")),
    ]
    prepared = preparer(card, tmp_path).prepare(items, EncodeParams())
    assert all(isinstance(item, Prepared) for item in prepared), prepared
    done = runtime.run(packed(1, "m", ["dense"], prepared))  # type: ignore[arg-type]
    processor = CLIPImageProcessorPil(
        size=16, crop_size=16, image_mean=media.MEAN, image_std=media.STD
    )
    pixels = processor(images, return_tensors="pt").pixel_values
    with torch.inference_mode():
        theirs = model.get_image_features(pixels).pooler_output
        text = model.get_text_features(torch.tensor([[1, 7, 9, 11, 60]])).pooler_output
    ours = media.rows(done)
    media.close(ours[[0, 2]], theirs)
    media.close(ours[1:2], text)


class Breaking(ImageDecoder):
    """Fails as no library says that it does."""

    def decode(self, data: bytes, *, alone: bool) -> Decoded:
        if data == b"odd":
            raise struct.error("unpack requires a buffer of 4 bytes")
        return super().decode(data, alone=alone)


def test_whatever_a_file_does_to_a_library_the_others_are_not_at_fault(tmp_path: Path) -> None:
    clip(tmp_path)
    made = preparer(clip_card(), tmp_path)
    made._decoder = Breaking("clip", tmp_path, WorkerSettings())
    good = Media(saved(picture(61, 40), "PNG"))
    odd, other = made.prepare([Media(b"odd"), good], EncodeParams())
    assert isinstance(odd, ComputeFailed)
    assert "requires a buffer" in odd.message
    assert isinstance(other, Prepared)


def test_sound_becomes_a_transcript_with_times(tmp_path: Path) -> None:
    whisper(tmp_path)
    card, runtime = whisper_card(), TorchRuntime()
    runtime.load(load_of(card, tmp_path, Profile()))
    noise = np.random.default_rng(5).normal(size=1600).astype(np.float32) / 9  # three windows
    (item,) = preparer(card, tmp_path).prepare(
        [Media(sound_file(noise, 1600, "WAV", "FLOAT"))], ExtractParams()
    )
    assert isinstance(item, Prepared)
    assert len(item.sequences) >= 3
    done = runtime.run(packed(1, "m", ["extract"], [*item.sequences]))
    output = read_outputs(done.arrays, done.lengths, done.indices, len(item.sequences))["extract"]
    assert item.finish is not None
    answer = item.finish([{"extract": row} for row in output.rows()], ())
    assert isinstance(answer, bytes)
    told = msgspec.msgpack.decode(answer)
    assert told["language"] in ("de", "en")
    edges = [edge for s in told["segments"] for edge in (s["start_s"], s["end_s"])]
    assert edges == sorted(edges)
    assert 0 <= edges[0] < 0.4 < edges[-1] <= 1.0
    words = told["text"].split()
    assert words == " ".join(segment["text"] for segment in told["segments"]).split()
    said = from_wire(done.indices["extract"])
    assert len(words) == np.count_nonzero((said >= 0) & (said < 50))


@pytest.mark.parametrize("several", [False, True])
def test_what_a_transcript_begins_with(tmp_path: Path, several: bool) -> None:
    whisper(tmp_path, several=several)
    card = whisper_card(languages=[] if several else ["en"])
    made = preparer(card, tmp_path)
    sound = Media(sound_file(np.zeros(400, np.float32), 1600, "WAV", "FLOAT"))

    def begin(**asked: Any) -> list[int]:
        (item,) = made.prepare([sound], ExtractParams(speech=Speech(**asked)))
        assert isinstance(item, Prepared), item
        (window,) = item.sequences
        assert window.begin is not None
        assert window.temperature == asked.get("temperature")
        return [int(token) for token in window.begin]

    language = {"en": [speech.ENGLISH], None: [-1]} if several else {"en": [], None: []}
    task = [speech.TRANSCRIBE] if several else []
    assert begin(temperature=0.5) == [speech.START, *language[None], *task]
    assert begin(language="EN") == [speech.START, *language["en"], *task]
    unknown = "it knows de, en" if several else "it knows en alone"
    with pytest.raises(InvalidRequest, match=unknown):
        made.prepare([sound], ExtractParams(speech=Speech("fr")))
    with pytest.raises(InvalidRequest, match="reads no prompt"):
        begin(prompt="w1 w2")
    if several:
        assert begin(task="translate")[-1] == speech.TRANSLATE
        whisper(tmp_path, several=True, prev_sot_token_id=3)
        made = preparer(card, tmp_path)
        words = " ".join(f"w{n}" for n in range(20, 40))
        # Half of a text of 24 tokens, less the marker.
        assert begin(prompt=words)[:-3] == [3, *range(29, 40)]
    else:
        with pytest.raises(InvalidRequest, match="cannot translate"):
            begin(task="translate")


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (Media(b""), "is empty"),
        (Media(b"hello"), "no image that can be read"),
        (Media(b"x", "audio"), "takes text or image, no audio"),
        (Media(saved(picture(400, 300), "PNG")), "400 x 300 pixels, and at most 100000"),
    ],
)
def test_a_wrong_file_fails_alone(tmp_path: Path, item: Item, why: str) -> None:
    clip(tmp_path)
    good = Media(saved(picture(), "PNG"))
    made = preparer(clip_card(), tmp_path, media_pixels=100_000)
    first, wrong, last = made.prepare([good, item, "w5"], EncodeParams())
    assert isinstance(first, Prepared)
    assert isinstance(last, Prepared)
    assert first.input is not None
    assert last.ids is not None
    assert isinstance(wrong, InvalidItem)
    assert why in wrong.message


def test_a_model_without_texts_refuses_them(tmp_path: Path) -> None:
    whisper(tmp_path)
    made = preparer(whisper_card(), tmp_path, media_seconds=1.0)
    sound = sound_file(tone(1600, 1.1), 1600, "WAV")
    text, ids, long = made.prepare(["hello", [1, 2], Media(sound)], ExtractParams())
    assert isinstance(text, InvalidItem)
    assert "takes audio, no text" in text.message
    assert isinstance(ids, InvalidItem)
    assert "no token ids" in ids.message
    assert isinstance(long, InvalidItem)
    assert "lasts 1.1 s" in long.message


def test_one_vector_is_of_one_window(tmp_path: Path) -> None:
    whisper(tmp_path)
    made = preparer(whisper_card(tasks=Tasks(EncodeTask(Dense(32)))), tmp_path)
    short, long = (Media(sound_file(tone(1600, s), 1600, "WAV")) for s in (0.3, 0.9))
    fits, not_so = made.prepare([short, long], EncodeParams())
    assert isinstance(fits, Prepared)
    assert isinstance(not_so, InvalidItem)
    assert "lasts 0.9 s, which is more than one sequence" in not_so.message


def test_a_sound_that_is_too_long_by_its_header_is_not_decoded(tmp_path: Path) -> None:
    """Its content is gone, and nobody finds out."""
    whisper(tmp_path)
    made = preparer(whisper_card(tasks=Tasks(EncodeTask(Dense(32)))), tmp_path)
    rng = np.random.default_rng(3)
    short, long = (
        sound_file(rng.normal(size=int(s * 1600)).astype(np.float32) / 9, 1600, "FLAC")
        for s in (0.3, 0.9)
    )
    cut, refused = made.prepare([Media(f[: len(f) // 2]) for f in (short, long)], EncodeParams())
    assert isinstance(cut, InvalidItem)
    assert "cut off" in cut.message
    assert isinstance(refused, InvalidItem)
    assert "lasts 0.9 s, which is more than one" in refused.message


def test_a_page_is_a_picture_and_several_are_not(tmp_path: Path) -> None:
    clip(tmp_path)
    made = preparer(clip_card(), tmp_path)
    one, two = made.prepare([Media(pdf((90, 90))), Media(pdf((9, 9), (9, 9)))], EncodeParams())
    assert isinstance(one, Prepared)
    assert one.input is not None
    assert one.input[0, 0].tolist() == [0, 0, 0]
    assert one.input[-1, -1].tolist() == [255, 255, 255]
    assert isinstance(two, InvalidItem)
    assert "has 2 pages, which is more than one sequence" in two.message


def test_what_a_model_does_not_do_is_refused(tmp_path: Path) -> None:
    clip(tmp_path)
    made = preparer(clip_card(), tmp_path)
    for params in (ExtractParams(), ScoreParams(b"")):
        with pytest.raises(InvalidRequest, match="'m' does not do this task"):
            made.prepare([Media(saved(picture(), "PNG"))], params)


@pytest.mark.parametrize("inputs", [["text", "image"], ["image"]])
def test_each_model_can_be_probed(tmp_path: Path, inputs: list[Input]) -> None:
    clip(tmp_path)
    made = preparer(clip_card(inputs=inputs), tmp_path)
    (item,) = made.prepare([made.probe], EncodeParams())
    assert isinstance(item, Prepared)


def test_own_labels_score_as_the_model_itself_does(tmp_path: Path) -> None:
    model, runtime = clip(tmp_path), TorchRuntime()
    task = ExtractTask("image-text", template="w2 {label}")
    card = clip_card(tasks=Tasks(EncodeTask(Dense(20)), extract=task))
    runtime.load(load_of(card, tmp_path, Profile()))
    made = preparer(card, tmp_path)
    labels = ("w7 w9", "w11", "w30")
    files: list[Item] = [Media(saved(picture(), "PNG")), "w5", Media(saved(picture(9, 70), "PNG"))]
    prepared = made.prepare(files, ExtractParams(labels))
    assert isinstance(prepared[1], InvalidItem)
    sequences = [part for item in prepared if isinstance(item, Prepared) for part in item.sequences]
    assert len(sequences) == 2 + 3  # labels once, behind the items
    done = runtime.run(packed(1, "m", ["extract"], sequences))
    rows = [{"extract": row} for row in from_wire(done.arrays["extract"])]
    processor = CLIPImageProcessorPil(
        size=16, crop_size=16, image_mean=media.MEAN, image_std=media.STD
    )
    ids = torch.tensor([[1, 2, 7, 9, 60, 0], [1, 2, 11, 60, 0, 0], [1, 2, 30, 60, 0, 0]])
    for place, image in enumerate((picture(), picture(9, 70))):
        pixels = processor([image], return_tensors="pt").pixel_values
        with torch.inference_mode():
            logits = model(ids, pixels).logits_per_image[0]
        expected = dict(zip(labels, logits.softmax(0).tolist(), strict=True))
        item = prepared[2 * place]
        assert isinstance(item, Prepared)
        assert item.finish is not None
        answer = item.finish(rows[place : place + 1], rows[2:])
        assert isinstance(answer, bytes)
        told = msgspec.msgpack.decode(answer)["labels"]
        assert [label["label"] for label in told] == sorted(
            labels, key=lambda name: -expected[name]
        )
        for label in told:
            assert label["score"] == pytest.approx(expected[label["label"]], abs=1e-4)


def test_own_labels_may_each_fit_by_itself_and_have_a_least_score(tmp_path: Path) -> None:
    clip(tmp_path)
    card = clip_card(tasks=Tasks(extract=ExtractTask("image-text", labels=["w2", "w3"])))
    made = preparer(card, tmp_path)
    params = ExtractParams(multi_label=True, threshold=0.6)
    item, _ = made.prepare([Media(saved(picture(), "PNG"))], params)
    assert isinstance(item, Prepared)
    assert item.finish is not None
    rows = [{"extract": np.array(row, np.float32)} for row in ([2.0, 1.0], [1.0, 1.0], [-1.0, 1.0])]
    answer = item.finish(rows[:1], rows[1:])  # logits 3 and -1
    assert isinstance(answer, bytes)
    (label,) = msgspec.msgpack.decode(answer)["labels"]
    assert label == {"label": "w2", "score": pytest.approx(0.9526, abs=1e-4)}


@pytest.mark.parametrize(
    ("labels", "why"),
    [((), "needs some"), (("w5 " * 2000,), "label 'w5 .*tokens")],
)
def test_own_labels_that_cannot_be_used(tmp_path: Path, labels: tuple[str, ...], why: str) -> None:
    clip(tmp_path)
    made = preparer(clip_card(tasks=Tasks(extract=ExtractTask("image-text"))), tmp_path)
    with pytest.raises(InvalidRequest, match=why) as refused:
        made.prepare([Media(saved(picture(), "PNG"))], ExtractParams(labels))
    assert len(refused.value.message) < 250  # it is told with each item
    with pytest.raises(ModelLoadFailed, match="put both under `inputs`"):
        preparer(
            clip_card(inputs=["image"], tasks=Tasks(extract=ExtractTask("image-text"))), tmp_path
        )


def test_own_labels_are_of_images_alone(tmp_path: Path) -> None:
    clip(tmp_path)
    made = preparer(clip_card(tasks=Tasks(extract=ExtractTask("image-text"))), tmp_path)
    text, _ = made.prepare(["a fish"], ExtractParams(("w5",)))
    assert isinstance(text, InvalidItem)
    assert "takes image for this task, no text" in text.message


def test_labels_of_a_classifier_have_their_names(tmp_path: Path) -> None:
    shape = vision.SHAPE | {"id2label": {0: "cat", 1: "dog", 2: "cow"}}
    model = media.save(tmp_path, ViTForImageClassification(ViTConfig(**shape)))
    card = clip_card(
        inputs=["image"], tasks=Tasks(extract=ExtractTask("image-labels")), max_tokens=17
    )
    card = msgspec.structs.replace(card, family="vit")
    runtime = TorchRuntime()
    runtime.load(load_of(card, tmp_path, Profile()))
    image = picture(30, 30)
    (item,) = preparer(card, tmp_path).prepare([Media(saved(image, "PNG"))], ExtractParams())
    assert isinstance(item, Prepared)
    done = runtime.run(packed(1, "m", ["extract"], [*item.sequences]))
    assert item.finish is not None
    answer = item.finish([{"extract": from_wire(done.arrays["extract"])[0]}], ())
    assert isinstance(answer, bytes)
    told = {label["label"]: label["score"] for label in msgspec.msgpack.decode(answer)["labels"]}
    processor = ViTImageProcessorPil(size=16, image_mean=media.MEAN, image_std=media.STD)
    with torch.inference_mode():
        logits = model(processor([image], return_tensors="pt").pixel_values).logits[0]
    expected = dict(zip(("cat", "dog", "cow"), logits.softmax(0).tolist(), strict=True))
    assert told == pytest.approx(expected, abs=1e-5)


def test_a_missing_library_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip(tmp_path)
    monkeypatch.setitem(decoding.NEEDED, "image", {"no_such_module": "pillow"})
    with pytest.raises(ModelLoadFailed, match=r"need the package pillow.*shoal\[media\]"):
        preparer(clip_card(), tmp_path)


def test_a_family_that_takes_no_sound_is_not_given_any(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadFailed, match="takes tokens only"):
        preparer(clip_card(inputs=["audio"]), tmp_path)


def test_images_are_scored_by_a_text_that_is_computed_once(tmp_path: Path) -> None:
    """As many sequences as images, and one for the query, whose cosines are the scores."""
    clip(tmp_path)
    card = clip_card(tasks=Tasks(EncodeTask(Dense(20)), ScoreTask("cosine")))
    made = preparer(card, tmp_path)
    images: list[Item] = [Media(saved(picture(), "PNG")), "a fish"]
    out = made.prepare(images, ScoreParams(b""), "a bird")
    items = [item for item in out if isinstance(item, Prepared)]
    assert len(items) == 3
    assert [item.finish is not None for item in items] == [True, True, False]
    with pytest.raises(InvalidItem, match="query must be a text"):
        made.prepare(images[:1], ScoreParams(b""), images[0])


def test_tokens_of_images_become_what_was_asked(tmp_path: Path) -> None:
    clip(tmp_path)
    made = preparer(clip_card(tasks=Tasks(EncodeTask(multivector=Multivector(8)))), tmp_path)
    (item,) = made.prepare([Media(saved(picture(), "PNG"))], EncodeParams(("fde",)))
    assert isinstance(item, Prepared)
    assert item.finish is not None
    answer = item.finish([{"multivector": np.ones((5, 8), np.float32)}], ())
    assert isinstance(answer, Mapping)
    assert np.asarray(answer["fde"]).shape == (WIDTH,)
