"""Sections out of pages as DocBook writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.bench.quality import handbook

LONG = "All work and no play makes Jack a dull boy. " * 10
PAGE = f"""<?xml version="1.0"?><html><head><title>6. Nothing</title><style>p {{}}</style></head><body>
<ul class="docnav top"><li class="previous"><a href="x"><strong>Prev</strong></a></li></ul>
<div class="chapter"><div class="titlepage"><div><div>
<h1 class="title"><a id="apt"></a>Chapter 6. Maintenance of Systems</h1></div></div></div>
<div class="toc"><dl><dt><a href="y">6.1. Filling</a></dt><dd><dl><dt>x</dt></dl></dd></dl></div>
<div class="para">Maintenance of Systems is <em>hard</em>&#160;&amp; {LONG}</div>
<div class="section"><div class="titlepage"><div><div>
<h2 class="title"><a xmlns="" id="sect.cache"></a>6.1. The <code>apt-cache</code> Command</h2>
</div></div></div><a id="i" class="indexterm"></a><div class="para">First.</div><div class="para">
Then <pre class="screen"># apt update <b>now</b></pre>this: {LONG}</div></div>
<div class="section"><h3 class="title"><a id="sect.note"></a>6.2. Notes</h3><p>{LONG}</p></div>
<div class="section"><h3 class="title"><a id="sect.short"></a>6.3. A Short Section</h3><p>Few words.</p>
</div></div><ul class="docnav"><li>Next</li></ul></body></html>"""


def test_sections_have_titles_without_numbers_and_text_without_titles() -> None:
    found = handbook.sections(PAGE)
    assert list(found) == ["apt", "sect.cache"]
    assert found["apt"].title == "Maintenance of Systems"
    assert found["apt"].body == f"is hard & {LONG}".strip()
    assert found["sect.cache"].title == "The apt-cache Command"
    assert found["sect.cache"].body == f"First. Then this: {LONG}".strip()


def test_long_sections_are_cut() -> None:
    (section,) = handbook.sections(PAGE.replace("hard", LONG * 10)).keys() - {"sect.cache"}
    assert len(handbook.sections(PAGE.replace("hard", LONG * 10))[section].body) == handbook.BODY


def test_german_chapters_are_numbered_too() -> None:
    (section, _) = handbook.sections(PAGE.replace("Chapter 6.", "Kapitel 12.")).values()
    assert section.title == "Maintenance of Systems"


def test_the_first_page_with_a_section_counts(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(PAGE, encoding="utf-8")
    (tmp_path / "b.html").write_text(PAGE.replace("hard", "easy"), encoding="utf-8")
    found = handbook.read(tmp_path)
    assert list(found) == ["apt", "sect.cache"]
    assert "hard" in found["apt"].body


@pytest.mark.parametrize(
    ("count", "chosen"), [(3, [0, 3, 6]), (10, [*range(10)]), (99, [*range(10)])]
)
def test_a_sample_is_spread_evenly(count: int, chosen: list[int]) -> None:
    assert handbook.spread(range(10), count) == chosen


def test_nothing_is_spread() -> None:
    assert handbook.spread([], 3) == []
