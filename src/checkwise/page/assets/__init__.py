"""Styles and scripts of the page, as files."""

from __future__ import annotations

from importlib import resources


def assets(*names: str) -> str:
    """The content of some of the files in this folder, one after the other."""
    folder = resources.files("checkwise.page.assets")
    return "".join(folder.joinpath(name).read_text("utf-8") for name in names)
