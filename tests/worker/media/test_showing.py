"""Conversations with images as their model's own processor writes them, and what a real runtime says to them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image

from shoal.catalog.card import Card, Profile
from shoal.catalog.infer import infer
from shoal.errors import InvalidItem, ModelLoadFailed, ShoalError, TooManyTokens
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.settings import WorkerSettings
from shoal.tasks.generate.conversation import Conversation, Picture
from shoal.values import Encoding, GenerateParams
from shoal.wire.queue import Unit
from shoal.worker.holding import keys_bytes
from shoal.worker.media import DecodingPreparer
from shoal.worker.models import load_of, preparer_of
from shoal.worker.prepared import Prepared
from shoal.worker.preparing import prepare
from shoal.worker.texts import generate_of
from tests.runtimes.torch import media, seeing
from tests.runtimes.torch.generating import texts
from tests.worker.media.drawn import picture, saved
from tests.worker.media.test_pages import pdf
from tests.worker.media.tiny import smolvlm

#: Wide, high, square and thin: of squares 4 x 3, 4 x 3, 4 x 4 and 4 x 1.
PICTURES = [picture(61, 40), picture(40, 70, seed=9), picture(16, 16, seed=2), picture(90, 9)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return smolvlm(folder)


def card_of(folder: Path, **changes: Any) -> Card:
    return msgspec.structs.replace(infer(str(folder)), name="m", **changes)


def preparer(
    folder: Path, settings: WorkerSettings | None = None, **changes: Any
) -> DecodingPreparer:
    card = card_of(folder, **changes)
    made = preparer_of(card, folder, Profile(), "tokens", settings or WorkerSettings())
    assert isinstance(made, DecodingPreparer)
    return made


def parts_of(*said: str | Image.Image) -> list[dict[str, Any]]:
    """A message's, in OpenAI's shape."""
    return [
        {"type": "text", "text": part} if isinstance(part, str) else _part(part) for part in said
    ]


def _part(image: Image.Image) -> dict[str, Any]:
    data = base64.b64encode(saved(image, "PNG")).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def answered(
    made: DecodingPreparer, messages: list[dict[str, Any]], encoding: Encoding = "json", **more: Any
) -> Prepared | ShoalError:
    """What a unit of this conversation becomes."""
    codec = msgspec.json if encoding == "json" else msgspec.msgpack
    item = codec.encode({"messages": messages})
    params = GenerateParams(chat=True, temperature=0.0, **more)
    unit = Unit("u", "r", "m", "generate", params, encoding, [item], 9.0, "to")
    (out,) = prepare(unit, [item], made)
    return out


def processed(model: Any, messages: list[dict[str, Any]], images: list[Image.Image]) -> Any:
    """As the reference has it."""
    told = [
        {
            "role": message["role"],
            "content": [
                part if part["type"] == "text" else {"type": "image"} for part in message["content"]
            ],
        }
        for message in messages
    ]
    prompt = model.processor.apply_chat_template(told, add_generation_prompt=True, tokenize=False)
    return model.processor(text=prompt, images=images or None, return_tensors="pt")


#: By name, what is said, turn by turn.
TALKS: dict[str, list[list[str | Image.Image]]] = {
    "one": [[PICTURES[0], "what is it?"]],
    "between": [["this ", PICTURES[1], " and that ", PICTURES[2], "?"]],
    "turns": [[PICTURES[3], "hm?"], ["a fish"], ["and ", PICTURES[0], " here?"]],
    "none": [["hi"]],
}


def talk(name: str) -> tuple[list[dict[str, Any]], list[Image.Image]]:
    turns = TALKS[name]
    roles = ["user", "assistant"] * 2
    messages = [
        {"role": role, "content": parts_of(*turn)} for role, turn in zip(roles, turns, strict=False)
    ]
    return messages, [part for turn in turns for part in turn if not isinstance(part, str)]


@pytest.mark.parametrize("name", TALKS)
@pytest.mark.parametrize("split", [True, False])
def test_ids_and_pixels_are_those_of_the_reference(tmp_path: Path, name: str, split: bool) -> None:
    model = smolvlm(tmp_path)
    model.processor.image_processor.do_image_splitting = split
    model.processor.save_pretrained(tmp_path)
    messages, images = talk(name)
    ours = answered(preparer(tmp_path), messages)
    theirs = processed(model, messages, images)
    assert isinstance(ours, Prepared), ours
    assert ours.ids is not None
    assert ours.ids.tolist() == theirs["input_ids"][0].tolist()
    assert ours.length == len(ours.ids)
    if not images:
        assert ours.input is None
        return
    assert ours.input is not None
    pixels = (ours.input / 255 - np.array(media.MEAN)) / np.array(media.STD)
    expected = np.moveaxis(theirs["pixel_values"][0].numpy(), 1, 3)
    np.testing.assert_allclose(pixels, expected, atol=1e-5, rtol=0)


def test_texts_are_the_references(folder: Path, model: Any) -> None:
    """From the bytes of files to the tokens of an answer."""
    runtime = TorchRuntime()
    runtime.load(load_of(card_of(folder), folder, Profile(options={"pass_tokens": 64})))
    made = preparer(folder)
    for batch, name in enumerate(TALKS):
        messages, images = talk(name)
        prepared = answered(made, messages, max_tokens=20)
        assert isinstance(prepared, Prepared), prepared
        ours = texts.generated(runtime, generate_of(batch, "m", prepared))[batch]
        given = dict(processed(model, messages, images))
        with torch.inference_mode():
            whole = model.generate(
                **given, max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0
            )
        assert ours.tokens == whole[0, given["input_ids"].shape[1] :].tolist()


def test_bytes_of_messagepack_and_base64_are_images_too(folder: Path, model: Any) -> None:
    made, data = preparer(folder), saved(PICTURES[0], "PNG")
    known = answered(made, [{"role": "user", "content": parts_of(PICTURES[0])}])
    assert isinstance(known, Prepared)
    text = base64.b64encode(data).decode()
    forms: list[tuple[Encoding, dict[str, Any]]] = [
        ("msgpack", {"type": "image", "image": data}),
        ("json", {"type": "image", "image": text}),
        ("json", {"type": "image", "image": f"data:image/png;base64,{text}"}),
        ("json", {"type": "input_image", "image_url": f"data:image/png;base64,{text}"}),
    ]
    for encoding, part in forms:
        ours = answered(made, [{"role": "user", "content": [part]}], encoding)
        assert isinstance(ours, Prepared), ours
        assert ours.ids is not None and known.ids is not None
        assert ours.ids.tolist() == known.ids.tolist()
        assert ours.input is not None
        np.testing.assert_array_equal(ours.input, known.input)


def _broken(data: bytes) -> Conversation:
    message = {"role": "user", "content": [{"type": "image"}]}
    return Conversation([message], (Picture(data, "messages[0].content[0]"),))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", r"messages\[0\].content\[0\]: it is empty"),
        (b"nothing", r"messages\[0\].content\[0\]: this item is no image that can be read"),
        (saved(PICTURES[0], "PNG")[:-40], r"content\[0\]: this image is damaged or cut off"),
        (saved(Image.new("L", (9000, 9000)), "PNG"), r"content\[0\]: this image has 9000 x 9000"),
        (pdf((200, 100), (100, 200)), r"content\[0\]: this file has 2 pages"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    folder: Path, model: Any, data: bytes, says: str
) -> None:
    (out,) = preparer(folder).prepare([_broken(data)], GenerateParams(chat=True))
    assert isinstance(out, InvalidItem)
    with pytest.raises(InvalidItem, match=says):
        raise out


def test_an_image_of_one_page_is_as_good(folder: Path, model: Any) -> None:
    (out,) = preparer(folder).prepare([_broken(pdf((200, 100)))], GenerateParams(chat=True))
    assert isinstance(out, Prepared) and out.input is not None


def test_how_many_images_there_may_be(folder: Path, model: Any) -> None:
    """So many, and no more tokens than the model reads: told before the rest is decoded."""
    made = preparer(folder, WorkerSettings(media_images=3))
    out = answered(made, [{"role": "user", "content": parts_of(*PICTURES)}])
    assert isinstance(out, InvalidItem)
    assert "has 4 images, and at most 3 are taken (`media_images`" in out.message
    parts = [*parts_of(*([PICTURES[2]] * 11)), {"type": "image", "image": "AAAA"}]
    out = answered(preparer(folder), [{"role": "user", "content": parts}])
    assert isinstance(out, TooManyTokens)
    assert "up to messages[0].content[10] are more than 748 tokens" in out.message


@pytest.mark.parametrize(
    "said", [["<image>"], [PICTURES[2], "what is an <image>?"], [PICTURES[2], "<ima", "ge>"]]
)
def test_texts_must_not_say_the_place_of_an_image(
    folder: Path, model: Any, said: list[str | Image.Image]
) -> None:
    out = answered(preparer(folder), [{"role": "user", "content": parts_of(*said)}])
    assert isinstance(out, InvalidItem)
    assert "texts must not say <image>" in out.message


def test_a_template_without_a_place_for_images(folder: Path, model: Any) -> None:
    card = card_of(folder)
    assert card.tasks.generate is not None
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    task = msgspec.structs.replace(card.tasks.generate, chat_template=template)
    made = preparer(folder, tasks=msgspec.structs.replace(card.tasks, generate=task))
    out = answered(made, [{"role": "user", "content": parts_of(PICTURES[0], "hm?")}])
    assert isinstance(out, InvalidItem)
    assert "has 1 images, and its prompt 0 places" in out.message


def test_a_folder_is_a_card(folder: Path, model: Any) -> None:
    card = infer(str(folder))
    assert (card.family, card.inputs, card.max_tokens) == ("idefics3", ["text", "image"], 700)
    assert card.tasks.generate is not None
    assert card.tasks.names() == ["generate"]


def test_what_its_keys_take_is_known_before_it_is_loaded(folder: Path, model: Any) -> None:
    """From the part of its configuration that is of what reads tokens."""
    place = 2 * 2 * 2 * 16 * 4  # layers, keys and values, two heads of 16, float32
    profile = Profile(options={"cache_tokens": 1000})
    assert keys_bytes(card_of(folder), profile, folder, "cpu") == 1000 * place


def test_a_tokenizer_without_the_place_is_said_at_load(tmp_path: Path) -> None:
    smolvlm(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text().replace('"<image>"', '"<picture>"'))
    with pytest.raises(ModelLoadFailed, match="no token <image>"):
        preparer(tmp_path)


def test_no_image_of_another_size_is_asked_for(folder: Path, model: Any) -> None:
    prepared = answered(preparer(folder), talk("one")[0])
    assert isinstance(prepared, Prepared) and prepared.input is not None
    assert prepared.input.shape[1:] == (16, 16, 3)
    assert prepared.input.dtype == np.uint8
    assert prepared.ids is not None
    place = model.config.image_token_id
    assert (prepared.ids == place).sum() == len(prepared.input) * seeing.TOKENS
