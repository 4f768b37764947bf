"""Code on the pages runs, in order, in an empty folder; what is printed there is what comes out."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pandas
import pytest

from checkwise.cli import main
from checkwise.metrics import METRICS
from checkwise.report.explorer import script, script_hash
from checkwise.selection import rules
from checkwise.selection.registry import unregister

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def registries() -> Iterator[None]:
    """Forget the rules and metrics that a page adds."""
    before = set(METRICS), set(rules())
    yield
    for name in set(METRICS) - before[0]:
        del METRICS[name]
    for name in set(rules()) - before[1]:
        unregister(name)


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_on_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for kind, code in BLOCK.findall(page.read_text()):
        if kind == "python":
            exec(compile(code, str(page), "exec"), names)
            continue
        for line in code.splitlines():
            if line.startswith("$ checkwise "):
                with pytest.raises(SystemExit) as stop:
                    main(shlex.split(line.removeprefix("$ checkwise "), comments=True))
                assert stop.value.code == 0, line


def builder(name: str) -> ModuleType:
    path = ROOT / "docs" / "build" / f"{name}.py"
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"docs_build_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_simulated_bound_is_what_the_page_shows() -> None:
    assert builder("guarantees").table() in (ROOT / "docs" / "guarantees.md").read_text()


def test_the_reference_of_study_files_is_what_the_code_gives() -> None:
    reference = builder("study_file")
    assert reference.page() == reference.PAGE.read_text(), "run docs/build/study_file.py"
    keys = {(key.table, key.name): key for key in reference.known_keys()}
    assert len(keys) > 25
    assert keys["training", "steps"].default == "required"
    assert keys["records", "keep"].wanted == "one of all, feasible, none"
    assert all(key.means for key in keys.values())


def test_the_table_of_baselines_is_what_its_file_holds() -> None:
    baselines = builder("baselines")
    assert baselines.table(pandas.read_csv(baselines.DATA)) in baselines.PAGE.read_text()


def test_the_page_of_the_demo_runs_the_present_script() -> None:
    page = (ROOT / "docs" / "demo-report.html").read_text()
    assert script() in page, "rebuild it: python docs/build/pictures.py out/demo"
    assert script_hash().strip("'") in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_on_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize(
    "command", ["compare", "pack", "unpack", "tables", "figures", "report", "preregister"]
)
def test_the_readme_leads_to_the_page_of_a_command(command: str) -> None:
    rows = re.findall(r"^\|(.+)\| \[.+?\]\((.+?\.md)\)", (ROOT / "README.md").read_text(), re.M)
    (page,) = [page for words, page in rows if f"`{command}`" in words]
    assert f"checkwise {command} " in (ROOT / page).read_text()
