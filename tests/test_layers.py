"""Layers point one way, and importing the package stays light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import checkwise

PACKAGE = Path(checkwise.__file__).parent
ROOT = PACKAGE.parents[1]
SCRIPTS = ("docs/build", "studies", "tools", "benchmarks", "examples")
# What each package may use besides `doors`, `errors` and `words`, through the other's door alone.
CORE = "metrics statistics calibrators records selection sure"
CHOOSING = f"{CORE} store readers predict page deployed"
EDGES = {
    "doors": "",
    "errors": "",
    "words": "",
    "plugins": "",
    "metrics": "plugins",
    "statistics": "metrics",
    "calibrators": "metrics statistics",
    "records": "metrics calibrators readers",  # `Trajectory.from_history`, when it is called
    "selection": "plugins metrics statistics calibrators records sure",
    "sure": "metrics statistics records selection",
    "testing": "metrics records selection",
    "store": "metrics records selection",
    "readers": "metrics calibrators records store",
    "predict": "metrics records store readers",
    "page": f"{CORE} store",
    "deployed": f"{CORE} store readers",
    "integrations": f"{CHOOSING}",
    "study": f"{CHOOSING} plugins",
    "cli": f"{CHOOSING} plugins integrations study",
    "__main__": "cli",
}
# What reads results on unseen domains: of our own runs, and of other people's files.
HELD_OUT = ("checkwise.study.folder.sealed", "checkwise.study.target_rows")
HEAVY = ("torch", "numba", "pandas", "pyarrow", "matplotlib", "ray", "scipy", "PIL", "rich")


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(tree: ast.AST) -> list[str]:
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += names if node.module == "checkwise" else [node.module, *names]
    return found


def unit(dotted: str) -> str:
    """The package behind whose door a module stands; parts of studies have doors of their own."""
    parts = dotted.split(".")[1:] or ["checkwise"]
    inner = parts[0] == "study" and (PACKAGE / "/".join(parts[:2])).is_dir()
    return ".".join(parts[:2]) if inner else parts[0]


def uses() -> Iterator[tuple[Path, str, str]]:
    """Every import of one package by another: the file, its package, and the module named."""
    for path in modules():
        here = unit(".".join(("checkwise", *path.relative_to(PACKAGE).with_suffix("").parts)))
        for node in ast.walk(tree_of(path)):
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            if module.startswith("checkwise.") and unit(module) != here:
                yield path, here, module


def test_packages_use_each_other_through_doors() -> None:
    past = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for path, _, module in uses()
        if module != f"checkwise.{unit(module)}"
    ]
    assert past == []


def test_scripts_use_the_package_through_doors() -> None:
    past = []
    for path in (file for folder in SCRIPTS for file in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom):
                found = [(node.module or "", alias.name) for alias in node.names]
            elif isinstance(node, ast.Import):
                found = [(alias.name, "") for alias in node.names]
            else:
                continue
            past += [
                f"{path.relative_to(ROOT)} imports {name} of {module}"
                for module, name in found
                if module.startswith("checkwise.") and not is_offered(module, name)
            ]
    assert past == []


def is_offered(module: str, name: str) -> bool:
    """Whether a door names it; what each framework is given has a door of its own."""
    if module in ("checkwise.errors", "checkwise.words"):
        return True
    if re.fullmatch(r"checkwise\.integrations\.\w+", module):
        return not name.startswith("_")
    stub = PACKAGE.joinpath(*module.split(".")[1:], "__init__.pyi")
    return stub.exists() and re.search(rf" as {name}\b", stub.read_text()) is not None


def test_packages_use_only_what_they_may() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for path, here, module in uses()
        if (other := unit(module).split(".")[0]) != (own := here.split(".")[0])
        and other not in ("doors", "errors", "words")
        and other not in EDGES[own].split()
    ]
    assert wrong == []


def test_a_door_names_no_room() -> None:
    """A module named like a function of its package would take the function's place."""
    for stub in PACKAGE.rglob("__init__.pyi"):
        inner = [line for line in stub.read_text().splitlines() if line.count(".") > 1]
        names = set(re.findall(r" as (\w+)", "\n".join(inner)))
        rooms = {path.stem for path in stub.parent.glob("*.py")}
        assert not names & rooms, stub


def test_only_the_study_reads_held_out_results() -> None:
    for path in modules():
        if path.relative_to(PACKAGE).parts[0] != "study":
            names = imported(tree_of(path))
            assert not [name for name in names if name.startswith(HELD_OUT)], path


@pytest.mark.parametrize("layer", ["metrics", "selection", "records"])
def test_the_core_knows_neither_torch_nor_files(layer: str) -> None:
    for path in (PACKAGE / layer).rglob("*.py"):
        names = {name.split(".")[0] for name in imported(tree_of(path))}
        assert not names & {"torch", "pathlib", "os", "io"}, path


def test_importing_the_package_is_light() -> None:
    """And so is asking a study's data and hyperparameters for what needs no network."""
    code = (
        "import sys; import checkwise\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
        "import checkwise.study.train as train; import checkwise.study.data.every_dataset\n"
        "train.draw_hparams('images', 'ERM', hparams_seed=1, trial_seed=0)\n"
        "print([name for name in ('torch', 'pandas', 'PIL', 'mlxtend') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split("\n") == ["[]", "[]", ""], done.stderr


DEFAULTS = {"delta_pp", "bins", "bandwidth", "q", "eta"}


def defaults(node: ast.AST) -> list[tuple[str, ast.expr | None]]:
    """Name and default of every parameter of a function, or of a field of a class."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [(node.target.id, node.value)]
    if not isinstance(node, ast.FunctionDef):
        return []
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    last = positional[len(positional) - len(given.defaults) :]
    return [
        *((argument.arg, value) for argument, value in zip(last, given.defaults, strict=True)),
        *((a.arg, value) for a, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)),
    ]


def test_a_default_is_written_once() -> None:
    """Functions and fields name the constant that holds a default instead of repeating it."""
    repeated = [
        f"{name} of {ast.unparse(node)[:60]} in {path.relative_to(PACKAGE)}"
        for path in modules()
        for node in ast.walk(tree_of(path))
        for name, value in defaults(node)
        if name in DEFAULTS
        and isinstance(value, ast.Constant)
        and isinstance(value.value, int | float)
    ]
    assert repeated == []
