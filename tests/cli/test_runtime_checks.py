"""What can be computed here: `shoal doctor`, `serve`, `--explain` and callers are told one thing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations
from pathlib import Path

import pytest

from shoal.catalog.resolve import Catalog
from shoal.cli import runtime_checks
from shoal.cli.explain import explain
from shoal.cli.finding import Finding
from shoal.cli.prepare import prepare
from shoal.core.cooldowns import load_error
from shoal.errors import RuntimeMissing, SourceError
from shoal.installing import install
from shoal.runtimes.packages import NEEDED, missing
from shoal.settings import WorkerSettings
from shoal.worker.devices import lanes_of

CANDLE = """
name: light
source: {hub: org/light}
family: mpnet
max_tokens: 8
tasks: {encode: {dense: {dim: 8}}}
profiles: {default: {runtime: candle}}
"""
#: Model -> kinds of runtime that can compute it, as the cards have it.
COMPUTED = {
    "all-MiniLM-L6-v2": {"torch", "onnx", "candle"},
    "ms-marco-MiniLM-L-12-v2": {"torch", "onnx"},
    "rampart-pii": {"torch", "onnx"},
    "splade-tiny": {"torch"},
    "whisper-tiny.en": {"torch"},
    "pp-ocrv6-small": {"onnx"},
    "light": {"candle"},
}
COMBINATIONS = [
    frozenset(some)
    for some in chain.from_iterable(combinations(NEEDED, n) for n in range(len(NEEDED) + 1))
]


def settings(folder: Path, *models: str) -> WorkerSettings:
    (folder / "light.yaml").write_text(CANDLE)
    return WorkerSettings(
        models=[*models],
        lanes=["cpu"],
        catalog=[str(folder)],
        cache_dir=str(folder / "cache"),
        offline=True,
    )


def without(monkeypatch: pytest.MonkeyPatch, kinds: frozenset[str]) -> None:
    for kind in kinds:
        monkeypatch.setitem(NEEDED, kind, (f"no_{kind}_here",))


def checked() -> Iterator[Finding]:
    return (check() for kind, check in runtime_checks.kinds() if kind != "torch" or missing(kind))


@pytest.mark.parametrize(
    "absent", COMBINATIONS, ids=lambda kinds: "-".join(sorted(kinds)) or "none"
)
def test_all_say_the_same_of_what_is_not_installed(
    absent: frozenset[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    without(monkeypatch, absent)
    told = {finding.check: finding for finding in checked()}
    for kind in absent:
        assert told[kind].seen.startswith(f"no_{kind}_here not installed")
        assert told[kind].todo == install(kind)
    given = settings(tmp_path)
    catalog, (lane,) = Catalog.load(given.catalog), lanes_of(given)
    for name, able in COMPUTED.items():
        kind = lane.profile(catalog.card(name)).runtime
        assert kind in able
        given = settings(tmp_path, name)
        explain(given)
        explained = capsys.readouterr().out
        found = runtime_checks.runs(given)
        if able - absent:
            assert kind not in absent, f"{name} could run in {able - absent}"
            assert "cannot run here" not in explained
            assert f"{name}: runtime {kind}," in explained
            assert found.verdict == "ok"
            with pytest.raises(SourceError):  # it may run, and its files are not here
                prepare(given, tmp_path / "cards")
            continue
        assert f"{name}: cannot run here; runtime {kind}," in explained
        assert f"  install  {install(kind)}" in explained
        assert (found.verdict, found.todo) == ("fail", install(kind))
        assert found.seen.endswith(f"those to be served that cannot: {name}")
        with pytest.raises(RuntimeMissing, match=f"package 'no_{kind}_here'") as refused:
            prepare(given, tmp_path / "cards")
        assert install(kind) in refused.value.message
        lacks = missing(kind)  # what a worker tells of it (worker/lanes)
        assert lacks is not None
        error = load_error(name, lacks, 0, unserved=True)
        assert error.status == 501
        assert f"package 'no_{kind}_here': pip install 'shoal[{kind}]'" in error.message


def test_how_much_of_the_catalog_can_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, frozenset({"torch"}))
    given = settings(tmp_path)
    catalog, (lane,) = Catalog.load(given.catalog), lanes_of(given)
    many = sum(lane.profile(card).runtime == "torch" for card in catalog.cards())
    assert 0 < many < len(catalog.cards())
    found = runtime_checks.runs(given)
    assert found.verdict == "ok"
    assert f"{len(catalog.cards()) - many} of {len(catalog.cards())} of the catalog" in found.seen
    assert found.seen.endswith(f"; {many} need torch")


def test_what_a_card_keeps_copies_of_is_to_be_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, frozenset({"candle"}))
    given = settings(tmp_path)
    (tmp_path / "light.yaml").write_text(f"{CANDLE}min_replicas: 1\n")
    assert runtime_checks.runs(given).seen.endswith("those to be served that cannot: light")


def test_torch_is_missed_only_by_who_has_no_other_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, frozenset({"torch"}))
    assert [finding.verdict for finding in checked()] == ["warn", "ok", "ok", "ok"]
    without(monkeypatch, frozenset(NEEDED))
    assert [finding.verdict for finding in checked()] == ["fail", "ok", "warn", "warn"]


def test_a_part_of_what_a_kind_needs_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NEEDED, "torch", ("torch", "no_safetensors_here"))
    torch = next(checked())
    assert (torch.check, torch.verdict) == ("torch", "warn")
    assert torch.seen.startswith("no_safetensors_here not installed")


def test_a_broken_catalog_is_told_by_another_check(tmp_path: Path) -> None:
    given = settings(tmp_path)
    (tmp_path / "light.yaml").write_text("nmae: x\n")
    assert runtime_checks.runs(given).verdict == "warn"
