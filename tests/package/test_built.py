"""What `make package` put into dist/: all that is needed, nothing else, and small."""

from __future__ import annotations

import re
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
MEGABYTE = 1_000_000


def one(pattern: str) -> Path:
    (found,) = DIST.glob(pattern)
    return found


def wheel_names() -> set[str]:
    with zipfile.ZipFile(one("*.whl")) as wheel:
        return {name for name in wheel.namelist() if not name.endswith("/")}


def source_names() -> set[str]:
    with tarfile.open(one("*.tar.gz")) as source:
        return {member.name.partition("/")[2] for member in source if member.isfile()}


def test_the_wheel_is_the_package_and_its_metadata() -> None:
    names = wheel_names()
    package = ROOT / "src" / "checkwise"
    there = {
        f"checkwise/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {name for name in names if name.startswith("checkwise/")} == there
    others = {re.sub(r"^[^/]+/", "", name) for name in names - there}
    assert others == {
        "METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE", "licenses/AUTHORS",
    }  # fmt: skip
    assert "checkwise/py.typed" in names
    assert one("*.whl").stat().st_size < 1.2 * MEGABYTE


def test_the_sdist_has_source_tests_and_pages_but_no_studies() -> None:
    names = source_names()
    assert {"pyproject.toml", "README.md", "LICENSE", "AUTHORS", "CITATION.cff"} <= names
    assert {"src/checkwise/__init__.py", "tests/selection/test_rules.py", "Makefile"} <= names
    assert {"docs/logs.md", "tests/oldest.txt"} <= names
    assert not [
        name for name in names if name.startswith(("docs/study/", "docs/images", ".ci", ".github"))
    ]
    assert not [name for name in names if name.endswith(".pyc")]
    assert one("*.tar.gz").stat().st_size < 3 * MEGABYTE


def test_links_of_the_readme_work_where_it_is_shown() -> None:
    with zipfile.ZipFile(one("*.whl")) as wheel:
        (metadata,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
        text = wheel.read(metadata).decode()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 10
    assert [link for link in links if not link.startswith("https://")] == []
    assert "$HFPR" not in text
