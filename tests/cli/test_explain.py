from pathlib import Path

import pytest

from shoal.cli.explain import explain
from shoal.errors import UnknownModel
from shoal.runtimes import packages
from shoal.settings import WorkerSettings

CARD = """
name: small
source: {dir: .}
family: bert
tasks:
  encode: {dense: {dim: 8}}
max_tokens: 64
profiles:
  cpu: {runtime: onnx, options: {weights: int8}, measured: "twice the texts, no score moves"}
  onnx-shipped: {runtime: onnx, options: {weights: shipped}, measured: a score moves by 0.1}
  default: {runtime: torch}
"""


def settings(folder: Path, *models: str, **more: object) -> WorkerSettings:
    (folder / "small.yaml").write_text(CARD)
    given = {"lanes": ["cpu"], "threads": 2, "models": list(models), "catalog": [str(folder)]}
    return WorkerSettings(**given | more)  # type: ignore[arg-type]


def needs(monkeypatch: pytest.MonkeyPatch, **modules: str) -> None:
    needed = {kind: (module,) for kind, module in modules.items()}
    monkeypatch.setattr(packages, "NEEDED", needed)


def test_it_says_what_is_chosen_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs(monkeypatch, torch="msgspec", onnx="msgspec")
    explain(settings(tmp_path, "small"))
    told = capsys.readouterr().out
    assert "small: runtime onnx, int8, profile cpu" in told
    assert "  measured twice the texts, no score moves" in told
    assert "not      default (runtime torch): comes after it" in told
    assert (
        "not      onnx-shipped (runtime onnx): for other devices, or with --profile onnx-shipped; "
        "a score moves by 0.1"
    ) in told
    assert "threads  2 (the lane’s), weights: int8" in told
    assert "packages msgspec " in told


def test_it_says_what_is_passed_over_and_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs(monkeypatch, torch="msgspec", onnx="not_there_at_all")
    explain(settings(tmp_path, "small"))
    told = capsys.readouterr().out
    assert "small: runtime torch, dtype auto, profile default" in told
    assert (
        "not      cpu (runtime onnx): the onnx runtime needs the package 'not_there_at_all'" in told
    )


def test_a_profile_that_was_asked_for_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs(monkeypatch, torch="msgspec", onnx="not_there_at_all")
    explain(settings(tmp_path, "small", profile="cpu"))
    told = capsys.readouterr().out
    assert "profile cpu, as was asked for" in told
    assert "small: cannot run here; runtime onnx" in told
    assert "nothing that suits can run here: the onnx runtime needs" in told
    assert "  install  " in told


def test_an_unknown_model(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel):
        explain(settings(tmp_path, "smal1", offline=True))
