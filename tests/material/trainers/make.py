"""Run the trainings behind the material again: ``python -m tests.material.trainers.make``.

Names of trainers as arguments run only those. The versions go into ``versions.json``; where each
trainer comes from and what to install is in README.md.
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.material.trainers.recipes import vision_ops

HERE = Path(__file__).parent
TRAINERS = ("transformers", "lightning", "keras", "timm", "fastai", "ultralytics")


def make(trainer: str) -> None:
    """All cases of one trainer, in a temporary folder; only what the tests need is kept."""
    vision_ops.declare()
    recipe = importlib.import_module(f"tests.material.trainers.recipes.run_{trainer}")
    with tempfile.TemporaryDirectory() as work:
        recipe.make(Path(work).resolve(), HERE / trainer)
    _write_versions(trainer, recipe.VERSIONS)


def _write_versions(trainer: str, packages: tuple[str, ...]) -> None:
    file = HERE / "versions.json"
    versions = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    versions[trainer] = {"python": platform.python_version()} | {p: version(p) for p in packages}
    ordered = {name: versions[name] for name in TRAINERS if name in versions}
    file.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:] or TRAINERS:
        make(name)
