"""The site: every page is in its navigation, links fit GitHub and the site, faults are seen."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkwise.selection import DELTA_PP
from checkwise.study import UNITS
from checkwise.words import RECOMMENDED
from tests.docs.test_pages import PAGES, ROOT, builder

SITE = builder("site_pages")
CHECK = builder("site_check")
COMMANDS = builder("commands")
SETTINGS = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]


def listed(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    for inner in (
        entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ()
    ):
        yield from listed(inner)


def test_every_page_is_in_the_navigation_once() -> None:
    named = [page for page in listed(SETTINGS["nav"]) if "://" not in page]
    assert len(named) == len(set(named))
    written = {*SITE.BUILT, *(SITE.place(page) for page in SITE.pages())}
    assert {page for page in named if not page.startswith("api/")} == written


def test_the_reference_of_commands_is_what_the_code_gives() -> None:
    assert "| `--delta-pp POINTS` | 0.5 |" in COMMANDS.page()


@pytest.mark.parametrize(
    ("page", "link", "there"),
    [
        ("README.md", "[a](docs/logs.md#keras)", "[a](logs.md#keras)"),
        ("README.md", "![a](docs/images/report.png)", "![a](images/report.png)"),
        ("CONTRIBUTING.md", "[a](docs/study/results.md)", "[a](study/results.md)"),
        ("docs/study/data.md", "[a](../guide.md)", "[a](../guide.md)"),
        (
            "docs/study/data.md",
            "[a](../../studies/data)",
            f"[a]({SITE.GITHUB}/tree/main/studies/data)",
        ),
        ("docs/live.md", "[a](../CHANGELOG.md)", "[a](changelog.md)"),
        ("README.md", "[a](docs/notebooks/first-steps.ipynb)", "[a](notebooks/first-steps.md)"),
        ("docs/live.md", "[a](../LICENSE)", f"[a]({SITE.GITHUB}/blob/main/LICENSE)"),
        ("docs/live.md", "[a](#here) [b](https://a.b/c.md)", "[a](#here) [b](https://a.b/c.md)"),
        ("docs/live.md", "[a](no-such-page.md)", "[a](no-such-page.md)"),
        ("README.md", "```\n[a](docs/logs.md)\n```", "```\n[a](docs/logs.md)\n```"),
    ],
)
def test_links_lead_to_the_same_page_on_the_site(page: str, link: str, there: str) -> None:
    assert SITE.relinked(link, page) == there


def test_files_that_pages_link_to_are_taken_along() -> None:
    text = "![a](docs/images/report.png) [b](docs/demo-report.html) [c](docs/logs.md) [d](LICENSE)"
    assert SITE.taken_along(text, "README.md") == {
        "docs/images/report.png",
        "docs/demo-report.html",
    }


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_anchors_that_a_page_links_to_exist(page: Path) -> None:
    text = SITE.FENCED.sub("", page.read_text(encoding="utf-8"))
    for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", text):
        other = (page.parent / target).resolve() if target else page
        headings = re.findall(r"^#+ (.+)$", SITE.FENCED.sub("", other.read_text("utf-8")), re.M)
        assert anchor in map(slug, headings), f"{target}#{anchor}"


FINE = '<a id="x"></a><a href="#x">x</a><a href="https://elsewhere.org">e</a><img src="a.png">'
FAULTS = {
    '<img src="b.png">': "links to b.png, which is not there",
    '<a href="b.html">b</a>': "links to b.html, which is not there",
    '<a href="#y">y</a>': "but there is no such anchor",
    '<a href="index.html#y">y</a>': "but there is no such anchor",
    '<script src="https://cdn.org/a.js"></script>': "from another host",
    '<link rel="stylesheet" href="//fonts.org/a.css">': "from another host",
    '<iframe src="https://a.org"></iframe>': "from another host",
}


def built(folder: Path, text: str) -> Path:
    (folder / "index.html").write_text(text)
    (folder / "a.png").touch()
    (folder / "search.json").write_text('{"items": [{"location": "index.html#x"}]}')
    return folder


def test_a_site_without_faults_passes(tmp_path: Path) -> None:
    assert CHECK.faults(built(tmp_path, FINE)) == []


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_of_the_site_is_seen(text: str, tmp_path: Path) -> None:
    (fault,) = CHECK.faults(built(tmp_path, FINE + text))
    assert FAULTS[text] in fault


def test_a_style_from_elsewhere_and_a_page_that_search_lacks_are_faults(tmp_path: Path) -> None:
    built(tmp_path, FINE)
    (tmp_path / "a.css").write_text("@font-face{src:url(https://fonts.org/a.woff2)}")
    (tmp_path / "b.html").write_text("b")
    assert len(CHECK.faults(tmp_path)) == 2


def test_the_glossary_defines_the_words_that_pages_rely_on() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert words == sorted(words, key=str.lower)
    assert set(words) >= {
        *("Source", "Target", "Held out", "Near-best", "Eligible"),
        *("Cohort", "Journal", "Block", "Draw", "Trial"),
    }
    assert set(UNITS) <= {word.lower() for word in words}
    assert f"The default is {DELTA_PP}." in text.split("## Tolerance")[1].split("##")[0]


# Second words for ideas that the glossary has a word for: near-best, source, target.
SECOND_WORDS = re.compile(r"\b(admissible|candidates?|in-domain|out-of-domain)\b", re.IGNORECASE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_one_word_for_an_idea(page: Path) -> None:
    if page.parent.name != "study":  # tables there are as they were published
        assert SECOND_WORDS.findall(page.read_text(encoding="utf-8")) == []


# What a newcomer reads names no study; a study's words begin where studies do.
FIRST_PAGES: tuple[str, ...] = (
    "README",
    "logs",
    "select",
    "predict",
    "sure",
    "faq",
    "live",
    "lightning",
)
FIRST_PAGES += (
    "transformers",
    "keras",
    "trees",
    "trackers",
    "guide",
    "deploy",
    "groups",
)
OF_STUDIES = re.compile(
    r"\b(feasible|eligible|in tolerance|cohorts?|contrasts?|mean source accuracy)\b", re.IGNORECASE
)
CODE = re.compile(r"```.*?```|`[^`]*`|^    [^\n]*|\]\([^)]*\)", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem in FIRST_PAGES], ids=lambda page: page.stem
)
def test_a_page_for_newcomers_has_no_words_of_studies(page: Path) -> None:
    assert OF_STUDIES.findall(CODE.sub("", page.read_text(encoding="utf-8"))) == []


def test_what_is_said_has_one_word_for_an_idea() -> None:
    said = (ROOT / "tests" / "sentences.txt").read_text(encoding="utf-8")
    assert re.findall(r"\b(eligible|in tolerance|candidates|admissible)\b", said) == []


@pytest.mark.parametrize("page", ["README.md", "docs/guide.md"])
def test_there_is_one_recommendation(page: str) -> None:
    """In the README as `select` prints it; on the page of a run tests/page looks for it."""
    said = " ".join((ROOT / page).read_text(encoding="utf-8").replace("`", "").split())
    assert RECOMMENDED in said
