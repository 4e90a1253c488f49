"""Every kind of runtime passes the checks that ship with Shoal, with a small model of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from shoal.runtimes.check.sample import Sample
from shoal.runtimes.check.samples import SAMPLES
from shoal.runtimes.check.subject import Subject
from shoal.runtimes.check.suite import CHECKS, LIMIT_S, Check
from shoal.runtimes.packages import missing
from shoal.runtimes.spec import RuntimeSpec
from tests.runtimes.onnx import graphs
from tests.runtimes.sglang import running


def _apart(folder: Path) -> Sample:
    """That of torch, of models that read prompts apart from what they write; the large one holds 120 MB."""
    from tests.runtimes.torch.generating import texts

    of = SAMPLES["torch"](folder)
    model = texts.make_t5(folder / "t5", "gated")
    texts.make_t5(folder / "t5-large", "gated", num_layers=8, d_ff=20_000)
    small, large = (
        msgspec.structs.replace(of.load, path=str(folder / name), family="t5")
        for name in ("t5", "t5-large")
    )
    return msgspec.structs.replace(of, load=small, large=large, bad_id=model.config.vocab_size)


#: The samples that ship, and those of models and servers that are made by nobody but their own tests.
TRIED = {(kind, kind): sample for kind, sample in SAMPLES.items()} | {
    ("onnx", "ppocr"): graphs.sample,
    ("torch", "t5"): _apart,
    ("sglang", "toy"): running.sample,
}


@pytest.fixture(scope="module", params=TRIED, ids="-".join)
def subject(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Subject]:
    kind, of = request.param
    if (absent := missing(kind)) is not None:
        pytest.skip(absent)
    subject = Subject(RuntimeSpec(kind), LIMIT_S)
    subject.try_with(TRIED[kind, of](tmp_path_factory.mktemp(of)))
    yield subject
    subject.discard()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_runtime(subject: Subject, check: Check) -> None:
    result = check.on(subject)
    if result.verdict == "not applicable":
        pytest.skip(result.why)
    assert result.verdict == "passed", result.why
