"""The lower bounds that are stated are the versions that ``make test-oldest`` installs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Tools that check the source or build the site, an extra that has to match the build of torch, and
# trainers, trackers and engines, which are tested where they are installed.
UNTESTED = {
    "mypy", "pandas-stubs", "pre-commit", "ruff", "timm", "lightning", "pytorch-lightning",
    "transformers", "accelerate", "mlflow", "ray", "submitit", "onnx", "onnxscript",
    "jsonargparse[signatures]", "hydra-core", "zensical", "mkdocstrings-python", "nbclient",
    "ipykernel", "build", "repo-review[cli]", "sp-repo-review", "twine", "uv", "zizmor",
}  # fmt: skip
# Releases that nobody must install.
MALICIOUS = dict.fromkeys(("lightning", "pytorch-lightning"), ",!=2.6.2,!=2.6.3")


def requirements() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, groups = settings["project"], settings["dependency-groups"]
    lists = [project["dependencies"], *project["optional-dependencies"].values(), *groups.values()]
    named = [line for lines in lists for line in lines if isinstance(line, str)]
    return [line.removesuffix(MALICIOUS.get(line.partition(">=")[0], "")) for line in named]


def test_every_dependency_has_a_lower_bound_and_nothing_else() -> None:
    others = [
        line
        for line in requirements()
        if not re.fullmatch(r"[a-z0-9-]+(\[[a-z]+\])?>=[0-9.]+", line)
    ]
    assert others == []


def test_the_oldest_set_is_the_lower_bounds() -> None:
    bounds = dict(line.split(">=") for line in requirements() if ">=" in line)
    lines = (ROOT / "tests" / "oldest.txt").read_text().splitlines()
    oldest = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert oldest == {name: bounds[name] for name in bounds if name not in UNTESTED}
