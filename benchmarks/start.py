"""What the first answer costs: the size of an installation, and starting in a new environment.

``python -m benchmarks.start`` installs checkwise with pip into an environment of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path

import numpy as np

from benchmarks.rows import Row, process_seconds, show

ROOT = Path(__file__).parents[1]
LOG = ROOT / "tests/material/trainers/lightning/plain/files/lightning_logs/version_0"
OF_THE_ENVIRONMENT = ("pip", "setuptools", "_distutils_hack", "distutils-precedence")
CHECKPOINTS, EXAMPLES, CLASSES, ROUNDS = 10, 1_000, 7, 40


def installed(folder: Path) -> Path:
    """An environment with checkwise alone; its Python."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = f"{folder}/bin/pip"
    subprocess.run([pip, "install", "--quiet", str(ROOT)], check=True, stderr=subprocess.DEVNULL)
    return folder / "bin" / "python"


def megabytes(folder: Path) -> float:
    """What pip installed, without compiled files."""
    site = next(folder.glob("lib/python*/site-packages"))
    files = (
        file
        for entry in site.iterdir()
        if not entry.name.startswith(OF_THE_ENVIRONMENT)
        for file in (entry, *entry.rglob("*"))
        if file.is_file() and file.suffix != ".pyc"
    )
    return sum(file.stat().st_size for file in files) / 1e6


def write_predictions(folder: Path) -> None:
    """Ten checkpoints of one validation set."""
    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, EXAMPLES)
    for step in range(1, CHECKPOINTS + 1):
        logits = random.standard_normal((EXAMPLES, CLASSES)).astype(np.float32)
        logits[np.arange(EXAMPLES), labels] += np.float32(3 * step / CHECKPOINTS)
        (folder / f"step-{100 * step:06d}").mkdir(parents=True)
        np.savez(folder / f"step-{100 * step:06d}" / "val.npz", logits=logits, labels=labels)


def loaded() -> None:
    """Print how many modules ``select`` loads, their lines, and in how many of them code runs."""
    from checkwise.cli import main as checkwise

    ran: set[str] = set()
    for look in (False, True):  # code that runs on import is not meant
        sys.setprofile((lambda frame, *_: ran.add(frame.f_code.co_filename)) if look else None)
        with redirect_stdout(StringIO()), suppress(SystemExit):
            checkwise(["select", str(LOG)])
    sys.setprofile(None)
    files = {m.__file__ for n, m in sys.modules.items() if n.partition(".")[0] == "checkwise"}
    paths = [Path(file) for file in files if file]
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in paths)
    print(len(paths), lines, len(ran.intersection(map(str, paths))))


def main() -> None:
    if sys.argv[1:]:
        loaded()
        return
    itself = [sys.executable, "-m", "benchmarks.start", "--loaded"]
    modules, lines, ran = map(int, subprocess.check_output(itself, text=True).split())
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    with tempfile.TemporaryDirectory() as name:
        python = str(installed(Path(name) / "env"))
        write_predictions(Path(name) / "predictions")
        command = [python, "-m", "checkwise", "select"]
        first = process_seconds([*command, f"{name}/predictions"], env=environment)
        size = megabytes(Path(name) / "env")
        works = {"numpy": [python, "-c", "import numpy"], "select": [*command, str(LOG)]}
        best = dict.fromkeys(works, float("inf"))
        for _ in range(ROUNDS):
            for key, words in works.items():
                best[key] = min(best[key], process_seconds(words, env=environment))
    show(
        [
            Row("core install, without `.pyc`", "–", size, 100, unit="MB"),
            Row(
                "`select` on a small log, the whole process",
                "`import numpy`, the whole process",
                best["select"] / best["numpy"],
                2,
            ),
            Row("modules that it loads", "–", modules, 70, unit="modules"),
            Row("lines in them", "–", lines, 9_000, unit="lines"),
            Row("modules in which code runs", "–", ran, 30, unit="modules"),
            Row(
                "the first `select` of a new environment, on predictions of ten checkpoints",
                "–",
                first,
                0.5,
                unit="s",
            ),
        ]
    )


if __name__ == "__main__":
    main()
