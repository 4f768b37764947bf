"""Notebooks: kept in git without outputs, run in a fresh kernel, shown on the site with outputs.

python -m docs.build.notebooks      removes the outputs that Jupyter saved
"""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "notebooks"
SECONDS = 300  # for a cell, on a busy machine
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebooks() -> list[Path]:
    """Every notebook of the documentation."""
    return sorted(FOLDER.glob("*.ipynb"))


def stripped(text: str) -> str:
    """A notebook without outputs, counts and what the machine that ran it is called."""
    content = json.loads(text)
    content["metadata"] = METADATA
    for cell in content["cells"]:
        cell["metadata"] = {}
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    return json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def run(path: Path, folder: Path) -> Any:
    """The notebook with the outputs of a fresh kernel that works in ``folder``.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    return NotebookClient(notebook, timeout=SECONDS, resources=resources).execute()


def write_page(notebook: Any, page: Path) -> None:
    """Write a notebook that was run as a page, with its pictures beside it."""
    parts = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for place, output in enumerate(cell.outputs):
            picture = page.with_name(f"{page.stem}-{number}-{place}.png")
            parts.append(_shown(output, picture))
    parts.insert(1, f"[The notebook itself]({page.stem}.ipynb), to run and change.")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _shown(output: Any, picture: Path) -> str:
    """What a cell printed, drew or returned."""
    if output.output_type == "stream":
        return _pre(output.text.rstrip())
    data = output.data
    if "image/png" in data:
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(base64.b64decode(data["image/png"]))
        return f"![What the cell draws]({picture.name})"
    if "text/html" in data:
        table: str = data["text/html"]
        body = table[table.index("<thead") : table.index("</table>")]
        return f'<div class="md-typeset__table"><table>{body}</table></div>'
    return _pre(data["text/plain"])


def _pre(text: str) -> str:
    return f'<pre class="output">{html.escape(text)}</pre>'


if __name__ == "__main__":
    for notebook in notebooks():
        notebook.write_text(stripped(notebook.read_text(encoding="utf-8")), encoding="utf-8")
