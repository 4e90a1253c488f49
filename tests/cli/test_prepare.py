from pathlib import Path

import pytest

from shoal.catalog.resolve import Catalog
from shoal.cli.prepare import Prepared, prepare
from shoal.errors import CardError, ConfigError, RuntimeMissing, SourceError, UnknownModel
from shoal.runtimes import packages
from shoal.settings import WorkerSettings
from tests.catalog.made import sentence_files, write


def offline(tmp_path: Path, *models: str, catalog: tuple[str, ...] = ()) -> WorkerSettings:
    cache = str(tmp_path / "cache")
    return WorkerSettings(models=list(models), offline=True, cache_dir=cache, catalog=list(catalog))


def test_a_folder_gets_a_card_that_other_processes_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write(tmp_path / "my-model", sentence_files())
    prepared = prepare(offline(tmp_path, str(model)), tmp_path / "cards")
    assert prepared.names == ["my-model"]
    card = Catalog.load(prepared.cards).card("my-model")
    assert card.source.dir == str(model)
    told = capsys.readouterr().err
    assert "has no card" in told
    assert "family: bert" in told


def test_a_name_of_the_catalog_needs_no_card(tmp_path: Path) -> None:
    model = write(tmp_path / "my-model", sentence_files())
    first = prepare(offline(tmp_path, str(model)), tmp_path / "cards")
    again = offline(tmp_path, "my-model", catalog=tuple(first.cards))
    assert prepare(again, tmp_path / "cards") == Prepared(["my-model"], [])


@pytest.mark.parametrize(
    ("model", "error", "told"),
    [
        ("nowhere", UnknownModel, "nowhere"),
        ("./nowhere", CardError, "nowhere"),
        ("all-MiniLM-L6-v2", SourceError, "^model 'all-MiniLM-L6-v2': wheel .* offline"),
    ],
)
def test_what_cannot_be_had(tmp_path: Path, model: str, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        prepare(offline(tmp_path, model), tmp_path / "cards")
    assert not (tmp_path / "cards").exists()


def test_two_models_of_one_name_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path / "a" / "mine", sentence_files())
    other = write(tmp_path / "b" / "mine", sentence_files())
    with pytest.raises(ConfigError, match=f"{one} and {other} would both be called 'mine'"):
        prepare(offline(tmp_path, str(one), str(other)), tmp_path / "cards")


def test_a_model_that_is_named_twice_is_served_once(tmp_path: Path) -> None:
    model = str(write(tmp_path / "mine", sentence_files()))
    assert prepare(offline(tmp_path, model, model, "mine"), tmp_path / "cards").names == ["mine"]


def test_what_nothing_here_computes_is_told_before_it_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "NEEDED", {"torch": ("not_there_at_all",)})
    told = "^model 'whisper-tiny.en' cannot run here: .* 'not_there_at_all': .* -m pip install "
    with pytest.raises(RuntimeMissing, match=told):
        prepare(offline(tmp_path, "whisper-tiny.en"), tmp_path / "cards")
