"""Notebooks run in a fresh kernel, and git holds none of their outputs."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.docs.test_pages import builder
from tests.requirements import available

NOTEBOOKS = builder("notebooks")
PATHS = NOTEBOOKS.notebooks()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_becomes_a_page(path: Path, tmp_path: Path) -> None:
    available("nbclient", "ipykernel", "mlxtend", "matplotlib")
    done = NOTEBOOKS.run(path, tmp_path)
    codes = [cell for cell in done.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in codes)
    assert [o for cell in codes for o in cell.outputs if o.get("name") == "stderr"] == []
    page = tmp_path / "page" / f"{path.stem}.md"
    NOTEBOOKS.write_page(done, page)
    text = page.read_text(encoding="utf-8")
    assert "Use step" in text
    assert "<table" in text
    for picture in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text):
        assert (page.parent / picture).read_bytes().startswith(b"\x89PNG")


def test_every_picture_of_a_cell_is_kept(tmp_path: Path) -> None:
    drawn = [b"\x89PNG one", b"\x89PNG two"]
    outputs = [
        SimpleNamespace(output_type="display_data", data={"image/png": base64.b64encode(one)})
        for one in drawn
    ]
    cells = [
        SimpleNamespace(cell_type="markdown", source="# Pictures"),
        SimpleNamespace(cell_type="code", source="draw()", outputs=outputs),
    ]
    NOTEBOOKS.write_page(SimpleNamespace(cells=cells), tmp_path / "page.md")
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (tmp_path / "page.md").read_text())
    assert [(tmp_path / name).read_bytes() for name in shown] == drawn


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_in_git_has_no_outputs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert NOTEBOOKS.stripped(text) == text, "run docs/build/notebooks.py"


def test_outputs_are_removed_and_nothing_else() -> None:
    cell = {"cell_type": "code", "source": "1", "id": "a", "metadata": {"time": 3}}
    saved = {"cells": [{**cell, "execution_count": 7, "outputs": [{"data": {}}]}], "metadata": {}}
    text = NOTEBOOKS.stripped(json.dumps(saved))
    (left,) = json.loads(text)["cells"]
    assert left == {**cell, "metadata": {}, "execution_count": None, "outputs": []}
    assert NOTEBOOKS.stripped(text) == text


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_links_in_a_notebook_lead_to_pages(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells)
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert links
    assert [link for link in links if not (path.parent / link).exists()] == []
