"""How docstrings are read for the reference: `Example:` holds code, and roles become code spans."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^(\s*)Example:$", re.MULTILINE)
ROLE = re.compile(r":[a-z]+:`~?(?:[\w.]*\.)?([^`.]+)`")


def readable(text: str) -> str:
    """A docstring in the words that mkdocstrings knows."""
    return ROLE.sub(r"`\1`", EXAMPLE.sub(r"\1Examples:", text))


class Readable(griffe.Extension):  # type: ignore[misc, unused-ignore]
    """Applied to everything that has a docstring."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)
