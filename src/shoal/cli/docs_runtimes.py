"""Writes the table of `docs/runtimes.md`: ``python -m shoal.cli.docs_runtimes PATH``.

It checks every kind of runtime with the small model that ships for it, which takes minutes. A test
fails when the page has not every check and every kind.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from shoal.cli.docs_path import path_of_page
from shoal.runtimes.check.samples import SAMPLES
from shoal.runtimes.check.subject import Subject
from shoal.runtimes.check.suite import CHECKS, LIMIT_S, Result, performed
from shoal.runtimes.packages import missing
from shoal.runtimes.serve import KINDS
from shoal.runtimes.spec import RuntimeSpec

#: The table, and the lines below it that say why a check says nothing of a kind.
TABLE = re.compile(r"\| check \|(?:.*\|\n)+(?:\n(?:- .*\n)+)?")
_NOTHING = {"passed": "passed", "failed": "**failed**", "not applicable": "–"}


def results_of(kind: str) -> list[Result] | str:
    """What its checks came to, or why none could be run here."""
    if (absent := missing(kind)) is not None:
        return absent
    if kind not in SAMPLES:
        return "no small model ships for it; `--model` gives it one"
    with tempfile.TemporaryDirectory(prefix="shoal-check-") as folder:
        subject = Subject(RuntimeSpec(kind), LIMIT_S)
        try:
            subject.try_with(SAMPLES[kind](Path(folder)))
            return list(performed(subject))
        finally:
            subject.discard()


def rendered(found: dict[str, list[Result] | str]) -> str:
    """The table and the reasons."""
    cells = {kind: _cells(results) for kind, results in found.items()}
    head = f"| check | what a runtime does | {' | '.join(f'`{kind}`' for kind in found)} |"
    rows = [head, "| --- " * (len(found) + 2) + "|"]
    for check in CHECKS:
        own = " | ".join(cells[kind].get(check.name, "not run") for kind in found)
        rows.append(f"| {check.name} | {check.about} | {own} |")
    return "\n".join([*rows, "", *_reasons(found)]) + "\n"


def _cells(results: list[Result] | str) -> dict[str, str]:
    return {} if isinstance(results, str) else {r.check: _NOTHING[r.verdict] for r in results}


def _reasons(found: dict[str, list[Result] | str]) -> Iterable[str]:
    for kind, results in found.items():
        if isinstance(results, str):
            yield f"- `{kind}`, not run: {results}."
            continue
        counts = Counter(result.why for result in results if result.verdict == "not applicable")
        for why, count in counts.items():
            yield f"- `{kind}`, {count} of {len(results)} say nothing: {why}."


def main(path: Path) -> None:
    """Check all kinds, and write the page anew."""
    found: dict[str, list[Result] | str] = {}
    for kind in KINDS:
        print(kind, file=sys.stderr, flush=True)
        found[kind] = results_of(kind)
    path.write_text(TABLE.sub(lambda _: rendered(found), path.read_text()))


if __name__ == "__main__":
    main(path_of_page(__doc__))
