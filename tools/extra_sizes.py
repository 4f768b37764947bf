"""What an installation of checkwise takes on disk, alone and with each extra, in megabytes.

`python tools/extra_sizes.py` installs each into an environment of its own with uv, measures, and
writes `docs/install-sizes.csv`. Arguments go to `uv pip install`, such as a CPU build of torch:
`--index-url` or `--find-links`.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SIZES = ROOT / "docs" / "install-sizes.csv"
COLUMNS = ("extra", "packages", "megabytes", "further_packages", "further_megabytes")


def main(options: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = measured("", options)
    rows = [("", *core, 0, 0)]
    for extra in project["optional-dependencies"]:
        packages, megabytes = measured(extra, options)
        rows.append((extra, packages, megabytes, packages - core[0], megabytes - core[1]))
        print(*rows[-1], flush=True)
    with SIZES.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


def measured(extra: str, options: list[str]) -> tuple[int, int]:
    """How many packages an environment has, and its size."""
    wanted = f"{ROOT}[{extra}]" if extra else str(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        python = f"{folder}/bin/python"
        subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, folder], check=True)
        install = ["uv", "pip", "install", "--quiet", "--python", python, wanted, *options]
        subprocess.run(install, check=True)
        site = next(Path(folder).glob("lib/python*/site-packages"))
        packages = len(list(site.glob("*.dist-info")))
        return packages, round(sum(f.lstat().st_size for f in site.rglob("*")) / 1e6)


if __name__ == "__main__":
    main(sys.argv[1:])
