"""Code on the pages runs, in order, in an empty folder; what is printed there is what comes out."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from checkwise.cli.entry import COMMANDS, STUDY_COMMANDS
from checkwise.page.document import script, script_hash
from tests.docs.run_page import BLOCK
from tests.requirements import available

ROOT = Path(__file__).parents[2]
# `<!-- needs: package, package -->` on a page of a framework.
NEEDS = re.compile(r"^<!-- needs: (.+) -->$", re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.usefixtures("commands")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_on_a_page_runs(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    for names in NEEDS.findall(text):
        available(*names.split(", "))
    if BLOCK.search(text) is not None:
        assert fault_of(page, tmp_path) == ""


def fault_of(page: Path, folder: Path) -> str:
    """In a fresh interpreter, where nothing is imported that the page does not import."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.run_page", str(page)],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
            "DO_NOT_TRACK": "true",  # MLflow reports on its use otherwise
        },
        capture_output=True,
        text=True,
    )
    return done.stderr if done.returncode else ""


BROKEN = {
    "a part that nobody imported": ("python", "import checkwise\ncheckwise.cli.app"),
    "a name of another page": ("python", "run"),
    "a rule that only Python knows": (
        "python",
        "import checkwise as cw\nopen('run.csv', 'w').write('step,accuracy\\n1,0.5\\n')\n"
        "@cw.rule('mine')\ndef mine(table): return table['step'][0]\n```\n\n"
        "```console\n$ checkwise select run.csv --rule mine",
    ),
    "a command that fails": ("console", "$ checkwise select nowhere"),
    "another output than is shown": ("console", "$ checkwise --version\ncheckwise 9"),
    "more output than is shown": ("console", "$ checkwise rules\nrule …"),
    "an answer that is shown as a refusal": ("console", "$ checkwise --version\ncheckwise: …"),
    "another refusal than is shown": ("console", "$ checkwise select nowhere\ncheckwise: no"),
    "a row that is not among those left out": ("console", "$ checkwise rules\n…\nno-such-rule …"),
}


@pytest.mark.usefixtures("commands")
@pytest.mark.parametrize("fault", BROKEN)
def test_a_fault_on_a_page_is_seen(fault: str, tmp_path: Path) -> None:
    kind, code = BROKEN[fault]
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n```{kind}\n{code}\n```\n")
    assert fault_of(page, tmp_path) != ""


def builder(name: str) -> ModuleType:
    """A script that writes pages, of the site or of the study."""
    homes = ("docs.build", "studies", "studies.paper", "studies.simulations")
    (home,) = (each for each in homes if (ROOT / each.replace(".", "/") / f"{name}.py").exists())
    return importlib.import_module(f"{home}.{name}")


def test_the_simulated_bound_is_what_the_page_shows() -> None:
    assert builder("guarantees").table() in (ROOT / "docs" / "sure.md").read_text()


def test_the_rule_on_the_page_is_the_one_that_the_library_is_tested_against() -> None:
    rules = builder("rules")
    assert builder("page").part(rules.PAGE, rules.PART) == rules.listing(), (
        "run docs/build/rules.py"
    )
    assert "def accuracy_constrained(" in rules.listing()


def test_the_words_of_columns_on_the_page_are_those_of_the_code() -> None:
    words = builder("column_words")
    shown = builder("page").part(words.PAGE, words.PART)
    assert shown == words.table(), "run docs/build/column_words.py"
    assert "`sparse categorical accuracy`" in shown


def test_the_reference_of_study_files_is_what_the_code_gives() -> None:
    reference = builder("study_file")
    lines = [line for line in reference.page().splitlines() if line.startswith("| `")]
    assert len(lines) > 25
    assert any(line.startswith("| `steps` |") and "required" in line for line in lines)
    assert any("one of all, feasible, none" in line for line in lines)
    assert all(line.split(" | ")[-1].strip(" |") for line in lines)


def test_every_extra_is_on_the_page_with_its_measured_size() -> None:
    install = builder("install")
    assert builder("page").part(install.PAGE, install.PART) == install.table()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(install.USES) == {"", *project["optional-dependencies"]}


def test_the_page_of_the_demo_runs_the_present_script() -> None:
    page = (ROOT / "docs" / "demo-report.html").read_text()
    assert script() in page, "rebuild it: python -m docs.build.pictures out/demo"
    assert script_hash().strip("'") in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_on_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_tests_that_the_page_on_reliability_names_exist() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text()
    named = set(re.findall(r"`([\w/]+\.py)`", page))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / "tests" / name).exists()] == []


@pytest.mark.parametrize(
    "command",
    [
        f"{group}{name}"
        for group, groups in (("", COMMANDS), ("study ", STUDY_COMMANDS))
        for lines in groups.values()
        for name, _, _ in lines
    ],
)
def test_a_page_shows_how_to_use_a_command(command: str) -> None:
    call = re.compile(rf"(?:^|`|\$ )checkwise {command}\b", re.MULTILINE)
    assert [page for page in PAGES if call.search(page.read_text())]
