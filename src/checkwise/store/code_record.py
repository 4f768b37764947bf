"""Which code is running: the commit where it is a checkout, and a hash of every file either way."""

from __future__ import annotations

import hashlib
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import checkwise

PACKAGE: Final = Path(checkwise.__file__).parent
_MADE_BY_RUNNING: Final = (".pyc", ".nbi", ".nbc")  # compiled code of Python and numba


@cache
def running_code() -> dict[str, Any]:
    """Version, SHA-256 of the package's files, and the commit they are of.

    ``commit`` is None outside a checkout; ``changed`` says whether files of the package differ
    from it.
    """
    commit = _git("rev-parse", "HEAD")
    return {
        "version": checkwise.__version__,
        "sha256": package_digest(PACKAGE),
        "commit": commit,
        "changed": None if commit is None else bool(_git("status", "--porcelain", "--", ".")),
    }


def package_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of a package's files, without what running it leaves."""
    whole = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        if file.suffix in _MADE_BY_RUNNING:
            continue
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        whole.update(f"{file.relative_to(folder).as_posix()} {content}\n".encode())
    return whole.hexdigest()


def _git(*arguments: str) -> str | None:
    """What git says about the package's folder; None without git or outside a checkout."""
    try:
        said = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(PACKAGE), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout.strip()
