"""What two families or two heads share is one piece: no run of lines stands in two of them."""

from __future__ import annotations

from pathlib import Path

import shoal.runtimes.torch as torch_runtime

#: Shorter runs are keys of config.json and names of arguments, which alike models have alike.
RUN = 8


def runs(path: Path) -> dict[tuple[str, ...], str]:
    """All runs of lines that say something."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    said = [line for line in lines if len(line) > 1 and not line.startswith(("from", "import"))]
    return {tuple(said[at : at + RUN]): path.name for at in range(len(said) - RUN + 1)}


def test_no_run_of_lines_stands_in_two_files() -> None:
    folder = Path(next(iter(torch_runtime.__path__)))
    files = sorted(path for part in ("families", "heads") for path in (folder / part).glob("*.py"))
    assert len(files) > 30
    seen: dict[tuple[str, ...], str] = {}
    for path in files:
        copied = {run: seen[run] for run in runs(path).keys() & seen.keys()}
        assert not copied, f"{path.name}: " + next(
            f"{other} has it too:\n" + "\n".join(run) for run, other in copied.items()
        )
        seen |= runs(path)
