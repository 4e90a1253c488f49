from pathlib import Path

import msgspec

from shoal.bench import report


def test_a_table_is_markdown_with_numbers_at_the_right() -> None:
    assert report.table(
        ["", "texts/s", "ratio"], [["ours", 1234.5, "1.0×"], ["theirs", 8.25, ""]]
    ) == (
        "|        | texts/s | ratio |\n"
        "| ------ | ------: | ----- |\n"
        "| ours   |   1,234 | 1.0×  |\n"
        "| theirs |    8.25 |       |"
    )


def test_the_machine_is_told_with_versions_of_what_is_installed() -> None:
    machine = report.this_machine(["msgspec", "no-such-package"])
    assert list(machine.versions) == ["shoal", "msgspec"]
    assert f"{machine.cores} cores of {machine.cpu}" in str(machine)


def test_results_are_written_as_json(tmp_path: Path) -> None:
    machine = report.this_machine([])
    report.write_json(tmp_path / "r.json", machine)
    assert msgspec.json.decode((tmp_path / "r.json").read_bytes(), type=report.Machine) == machine
