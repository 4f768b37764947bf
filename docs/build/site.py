"""Build the documentation site into site/, strictly and without the network.

python -m docs.build.site

Faults are dead links and anchors, pages that the navigation lacks, docstrings that cannot be read,
and anything that a page would load from another host.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from docs.build import api_pages, commands, json_outputs, notebooks, study_file
from docs.build.site_check import faults
from docs.build.site_pages import BUILT, ROOT, lay_out, place

PAGES = ROOT / "build" / "pages"
SITE = ROOT / "site"


def build() -> list[str]:
    """Build, and give what is wrong."""
    lay_out(PAGES)
    api_pages.write(PAGES / "api")
    for name, reference in zip(BUILT, (commands, study_file, json_outputs), strict=True):
        (PAGES / name).write_text(reference.page(), encoding="utf-8")
    for notebook in notebooks.notebooks():
        _run(notebook)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    said = done.stdout + done.stderr
    if done.returncode:
        return [said]
    # A docstring that cannot be read is a warning, but no fault in zensical.
    return [*re.findall(r"^griffe: .*$", said, re.MULTILINE), *faults(SITE)]


def _run(notebook: Path) -> None:
    """Run a notebook, and put it onto the site as a page and as it is."""
    page = PAGES / place(notebook.relative_to(ROOT).as_posix())
    with tempfile.TemporaryDirectory() as folder:
        notebooks.write_page(notebooks.run(notebook, Path(folder)), page)
    shutil.copyfile(notebook, page.with_suffix(notebook.suffix))


if __name__ == "__main__":
    if found := build():
        sys.exit("\n".join([*found, f"The site has {len(found)} faults."]))
    print(f"Built {SITE.relative_to(ROOT)}: look at it with `python -m http.server -d site`.")
