"""The snippets of docs/integrations.md: found by their headings, run against a server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
URL, KEY = "http://127.0.0.1:8080", "my-key"
#: Why the tests of libraries are skipped where these are not installed.
MISSING = "the group `ecosystem` is not installed here: `make ecosystem` runs these tests"

_SNIPPET = re.compile(r"^### (.+?)\n.*?^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SNIPPETS: dict[str, str] = dict(_SNIPPET.findall(PAGE.read_text()))


def run(heading: str, url: str, instead: dict[str, str] | None = None) -> dict[str, Any]:
    """The names that a snippet leaves behind, run with `url` and other texts put `instead`."""
    code = SNIPPETS[heading]
    for old, new in {URL: url, **(instead or {})}.items():
        assert old in code, f"{PAGE.name}: {heading} has no {old}"
        code = code.replace(old, new)
    names: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(code, f"{PAGE.name}: {heading}", "exec"), names)
    return names
