"""What a page of `checkwise study report` says, without how it looks: its data and its tables."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any


class _Facts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.data: list[Any] = []
        self.tables: list[list[list[str]]] = []
        self._script: str | None = None
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script" and ("type", "application/json") in attrs:
            self._script = ""
        elif tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self._cell = []

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self._script += data
        elif self._cell is not None:
            self._cell.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "script" and self._script is not None:
            self.data.append(json.loads(self._script))
            self._script = None
        elif tag in ("td", "th") and self._cell is not None:
            self.tables[-1][-1].append(" ".join("".join(self._cell).split()))
            self._cell = None


def read(page: str) -> dict[str, Any]:
    facts = _Facts()
    facts.feed(page)
    return {"data": facts.data, "tables": facts.tables}
