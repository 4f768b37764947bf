"""Lay out the pages of the documentation site: README first, then docs/ as it is.

Links between pages stay links between pages. A link to another file of the repository takes the
file along, or leads to GitHub where the site has no place for it.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
GITHUB = "https://github.com/checkwise/checkwise"
# Where a page of the repository is on the site.
PLACES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
BUILT = ("commands.md", "study-file.md", "json.md")  # on the site alone, from the code
NOTEBOOK = ".ipynb"  # a page of the site after it was run
TAKEN_ALONG = (".png", ".html", ".csv", ".toml")
FENCED = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")


def lay_out(target: Path) -> None:
    """Write every page, with its links as the site needs them, and the files that pages link to."""
    shutil.rmtree(target, ignore_errors=True)
    for page in pages():
        if page.endswith(NOTEBOOK):
            continue
        text = (ROOT / page).read_text(encoding="utf-8")
        where = target / place(page)
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(relinked(text, page), encoding="utf-8")
        for file in taken_along(text, page):
            copy = target / place(file)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, copy)
    shutil.copyfile(Path(__file__).with_name("site.css"), target / "site.css")


def pages() -> list[str]:
    """The pages of the repository that are pages of the site."""
    docs = sorted(f for kind in (".md", NOTEBOOK) for f in (ROOT / "docs").rglob(f"*{kind}"))
    return [*PLACES, *(page.relative_to(ROOT).as_posix() for page in docs)]


def place(file: str) -> str:
    """Where a file of the repository is on the site."""
    where = PLACES.get(file, file.removeprefix("docs/"))
    return f"{where.removesuffix(NOTEBOOK)}.md" if where.endswith(NOTEBOOK) else where


def relinked(text: str, page: str) -> str:
    """A page's text with its links as they are on the site; code stays as it is."""

    def link(match: re.Match[str]) -> str:
        return f"]({_target(match[1], page)}{match[2] or ''})"

    parts, end = [], 0
    for block in FENCED.finditer(text):
        parts += [LINK.sub(link, text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, LINK.sub(link, text[end:])])


def taken_along(text: str, page: str) -> set[str]:
    """The files that a page links to and that go onto the site with it."""
    found = (_file(match[1], page) for match in LINK.finditer(FENCED.sub("", text)))
    return {file for file in found if file is not None and file.endswith(TAKEN_ALONG)}


def _target(target: str, page: str) -> str:
    file = _file(target, page)
    if file is None:
        return target
    if file in pages() or file.endswith(TAKEN_ALONG):
        return os.path.relpath(place(file), os.path.dirname(place(page)) or ".")
    kind = "tree" if (ROOT / file).is_dir() else "blob"
    return f"{GITHUB}/{kind}/main/{file}"


def _file(target: str, page: str) -> str | None:
    """The file of the repository that a link leads to; none where it leads elsewhere or nowhere."""
    if "://" in target or target.startswith("mailto:"):
        return None
    file = os.path.normpath(os.path.join(os.path.dirname(page), target))
    return file if (ROOT / file).exists() else None
