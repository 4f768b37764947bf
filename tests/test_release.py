"""A release says one thing: versions agree, and GitHub runs what `.ci/run` runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import checkwise

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()
CI = (ROOT / ".ci" / "run").read_text()
WORKFLOWS = {path.stem: path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")}
MADE = re.compile(r"\bmake ([a-z][a-z0-9.-]*)")


def matrix(workflow: str, name: str) -> list[str]:
    """The values over which jobs of a workflow run."""
    (found,) = re.findall(rf"^ +{name}: \[(.+)\]$", WORKFLOWS[workflow], re.MULTILINE)
    return [value.strip(' "') for value in found.split(",")]


def targets(text: str) -> set[str]:
    return set(MADE.findall(text))


def test_every_place_says_the_same_version() -> None:
    version = PROJECT["version"]
    assert checkwise.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    newest = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert newest == version


def test_the_pythons_that_are_named_are_those_that_are_tested() -> None:
    prefix = "Programming Language :: Python :: "
    named = [line.removeprefix(prefix) for line in PROJECT["classifiers"] if prefix in line]
    versions = [name for name in named if re.fullmatch(r"3\.\d+", name)]
    assert versions == matrix("test", "python")
    assert PROJECT["requires-python"] == f">={versions[0]}"


def test_github_runs_what_the_projects_own_ci_runs() -> None:
    assert set(WORKFLOWS) == {"test", "docs", "publish"}
    run = {*matrix("test", "target"), *targets(WORKFLOWS["docs"])}
    assert run == targets(CI) | {"docs"}
    assert targets(WORKFLOWS["test"]) >= {"test-core"}


@pytest.mark.parametrize(
    "text",
    [CI, *WORKFLOWS.values(), (ROOT / "CONTRIBUTING.md").read_text()],
    ids=["ci", *WORKFLOWS, "contributing"],
)
def test_every_make_target_that_is_named_exists(text: str) -> None:
    known = set(re.findall(r"^([a-z][a-z0-9.-]*):", MAKEFILE, re.MULTILINE))
    phony = re.findall(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)[0].split()
    assert targets(text)
    assert targets(text) <= known
    assert set(phony) == known


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_and_may_do_little(name: str) -> None:
    used = re.findall(r"uses: (.+)$", WORKFLOWS[name], re.MULTILINE)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[0-9.]+", action), action
    assert "\npermissions:\n  contents: read\n" in WORKFLOWS[name]
    assert "secrets." not in WORKFLOWS[name]
