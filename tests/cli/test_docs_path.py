from pathlib import Path

import pytest

from shoal.cli.docs_path import path_of_page


def test_the_argument_is_the_page_s_path() -> None:
    assert path_of_page("Writes it.", ["docs/settings.md"]) == Path("docs/settings.md")


@pytest.mark.parametrize(
    ("arguments", "code"), [(["--help"], 0), ([], 2), (["--hlep"], 2), (["a", "b"], 2)]
)
def test_anything_else_is_told_a_usage(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        path_of_page("Writes `a.md` from what there is: how.\n\nMore.", arguments)
    assert ended.value.code == code
    out, error = capsys.readouterr()
    assert "usage: " in out + error
    assert ("Writes `a.md` from what there is.\n" in out) == (code == 0)
