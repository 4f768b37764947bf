"""Layers point one way, and importing the package stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import checkwise

PACKAGE = Path(checkwise.__file__).parent
LAYERS = [
    "text",
    "errors",
    "extras",
    "entry_points",
    "plugins",
    "threads",
    "metrics",
    "statistics",
    "calibrators",
    "records",
    "selection",
    "testing",
    "store",
    "readers",
    "predict",
    "data",
    "train",
    "sweep",
    "weights",
    "deployed",
    "study",
    "tables",
    "figures",
    "page",
    "integrations",
    "cli",
    "__main__",
]
# What reads results on unseen domains: of our own runs, and of other people's files.
HELD_OUT = ("checkwise.store.heldout", "checkwise.study.target_rows")
HEAVY = ("torch", "numba", "pandas", "pyarrow", "matplotlib", "ray", "scipy", "PIL", "rich")


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def layer_of(dotted: str) -> str | None:
    parts = dotted.split(".")
    return parts[1] if parts[0] == "checkwise" and len(parts) > 1 else None


def imported(tree: ast.AST) -> list[str]:
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += names if node.module == "checkwise" else [node.module, *names]
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_layers_above_its_own(path: Path) -> None:
    here = path.relative_to(PACKAGE).with_suffix("").parts[0]
    assert here in LAYERS, f"{here} is not a layer: add it to the list where it belongs"
    if path == PACKAGE / "study" / "__init__.py":
        return  # a door: it names parts of studies, and loads them when they are asked for
    for name in imported(ast.parse(path.read_text())):
        layer = layer_of(name)
        if layer is not None and layer in LAYERS:
            assert LAYERS.index(layer) <= LAYERS.index(here), f"{path.name} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_the_study_reads_held_out_results(path: Path) -> None:
    here = path.relative_to(PACKAGE).parts[0]
    if here != "study":
        names = imported(ast.parse(path.read_text()))
        assert not [name for name in names if name.startswith(HELD_OUT)]


@pytest.mark.parametrize("layer", ["metrics", "selection", "records"])
def test_the_core_knows_neither_torch_nor_files(layer: str) -> None:
    for path in (PACKAGE / layer).rglob("*.py"):
        names = {name.split(".")[0] for name in imported(ast.parse(path.read_text()))}
        assert not names & {"torch", "pathlib", "os", "io"}, path


def test_importing_the_package_is_light() -> None:
    code = (
        f"import sys; import checkwise; print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


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


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_default_is_written_once(path: Path) -> None:
    """Functions and fields name the constant that holds a default instead of repeating it."""
    for node in ast.walk(ast.parse(path.read_text())):
        for name, value in defaults(node):
            literal = isinstance(value, ast.Constant) and isinstance(value.value, int | float)
            assert not (name in DEFAULTS and literal), f"{name} of {ast.unparse(node)[:60]}"
