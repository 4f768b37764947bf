"""What is wrong with a built site: links and pictures that lead nowhere, loads from other hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser loads by itself, by element and attribute.
LOADED = {
    ("img", "src"),
    ("script", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("link", "href"),
}
# Links that a browser follows only when asked.
NOT_LOADED = {"canonical", "next", "prev", "alternate", "edit"}

ANYWHERE = {"", "__skip", "__top"}


class Page(HTMLParser):
    """What one page loads, links to and can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        followed = tag == "link" and values.get("rel") in NOT_LOADED
        for name, value in values.items():
            if (tag, name) in LOADED and not followed:
                self.loads.append(value)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])


def faults(site: Path) -> list[str]:
    """Every fault of the site in this folder, one line each."""
    pages = {
        path: Page(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
        if path.name != "404.html"  # its links begin at the site's root
    }
    found = [fault for path, page in pages.items() for fault in _faults(site, path, page, pages)]
    return [*found, *_style_faults(site), *_search_faults(site, pages)]


def _faults(site: Path, path: Path, page: Page, pages: dict[Path, Page]) -> Iterator[str]:
    where = path.relative_to(site)
    for url in page.loads:
        if urlsplit(url).netloc:
            yield f"{where} loads {url} from another host"
    for url in page.loads + page.links:
        parts = urlsplit(url)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if target.is_dir():
            target /= "index.html"
        if not target.is_file():
            yield f"{where} links to {url}, which is not there"
        elif target in pages and unquote(parts.fragment) not in pages[target].anchors | ANYWHERE:
            yield f"{where} links to {url}, but there is no such anchor"


def _style_faults(site: Path) -> Iterator[str]:
    for path in sorted(site.rglob("*.css")):
        if "url(http" in path.read_text(encoding="utf-8") or "@import" in path.read_text("utf-8"):
            yield f"{path.relative_to(site)} loads from another host"


def _search_faults(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Every page has to be found by a search."""
    items = json.loads((site / "search.json").read_text(encoding="utf-8"))["items"]
    found = {item["location"].partition("#")[0] for item in items}
    for path in pages:
        where = path.relative_to(site).as_posix()
        if where not in found and where != "demo-report.html":
            yield f"{where} is not in search.json"
