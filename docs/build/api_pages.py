"""Pages of the API reference: which names, on which page. The texts are the docstrings.

The names are those that `checkwise` and its parts list in `__all__`, those of the integrations, and
the few others that pages import.
"""

from __future__ import annotations

import importlib
import inspect
from functools import cache
from pathlib import Path
from typing import Any

import griffe

import checkwise

SOURCE = Path(__file__).parents[2] / "src"

# Parts that list their names themselves.
PARTS = {
    "selection": "Choosing",
    "readers": "Reading logs and tables",
    "records": "Records of runs",
    "metrics": "Metrics",
    "calibrators": "Calibrators",
    "deployed": "Deployed models",
    "testing": "Testing your own rules and metrics",
    "data": "Data sets",
    "train": "Training",
    "weights": "Averages and ensembles",
    "study": "Comparing",
    "tables": "Tables",
    "figures": "Figures",
    "page": "Report",
}
# What can be imported from elsewhere. Frameworks need not be installed to be described.
FURTHER = {
    "integrations": {
        "live": ("LiveSelector",),
        "lightning": ("ReliabilityCheckpoint",),
        "transformers": ("ReliabilityCallback", "ReliabilityMetrics", "reliability_metrics"),
        "keras": ("ReliabilityCheckpoint", "load_chosen"),
        "ray_train": ("Validation", "choose"),
        "torchmetrics": ("ECE", "NLL", "CwECE", "HardECE", "HardCwECE"),
        "mlflow": ("MlflowLog",),
        "tensorboard": ("TensorBoardLog",),
        "trackio": ("TrackioLog",),
        "wandb": ("WandbLog",),
        "domainbed": ("selection_method", "read_checkpoint", "source_domains"),
    },
    "store": {"retention": ("KeepFeasible", "KeepMembers", "KeepLast", "KeepEvery", "AnyOf")},
    "statistics": {
        "bootstrap": ("bootstrap_interval",),
        "clusters": ("cluster_means",),
        "wild": ("wild_interval",),
        "equivalence": ("equivalence",),
    },
    "study": {
        "units": ("clusters", "unit_intervals"),
        "contrast_results": ("contrast_results",),
        "registered_contrasts": ("registered_sets",),
    },
    "calibrators": {"temperature": ("fit_temperature",)},
    "weights": {"deploy": ("deploy",)},
}
ERRORS = "errors"
TITLES = {
    **PARTS,
    "integrations": "Inside trainers and trackers",
    "store": "What to keep",
    "statistics": "Statistics",
    ERRORS: "Errors",
}
INTRODUCTION = """\
# Python

What `import checkwise as cw` offers, from the docstrings. Names that are not listed here may
change without notice.

| name | what |
| --- | --- |
"""


def names(part: str) -> dict[str, str]:
    """The public names of a part, as one imports them, and where the code of each is."""
    found: dict[str, str] = {}
    if part in PARTS:
        module = importlib.import_module(f"checkwise.{part}")
        listed = [n for n in module.__all__ if not inspect.ismodule(getattr(module, n))]
        found = {f"checkwise.{part}.{name}": _home(module, name) for name in listed}
    if part == ERRORS:
        module = importlib.import_module("checkwise.errors")
        found = {
            f"checkwise.{n}": f"{module.__name__}.{n}"
            for n in vars(module)
            if n in checkwise.__all__
        }
    for inner, further in FURTHER.get(part, {}).items():
        paths = [f"checkwise.{part}.{inner}.{name}" for name in further]
        homes = {path: _described(path).path for path in paths}
        found |= {path: home for path, home in homes.items() if home not in found.values()}
    return dict(sorted(found.items(), key=lambda item: shown(*item).count(".")))


def write(folder: Path) -> None:
    """Write the pages as mkdocstrings wants them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for part, title in TITLES.items():
        lines = [f"# {title}\n", f"{_about(f'checkwise.{part}')}\n"]
        for name, home in names(part).items():
            lines.append(f"::: {home}\n    options:\n      heading: {shown(name, home)}\n")
            rows.append(f"| [`{shown(name, home)}`]({part}.md#{home}) | {_about(home)} |\n")
        (folder / f"{part}.md").write_text("\n".join(lines), encoding="utf-8")
    (folder / "index.md").write_text(INTRODUCTION + "".join(rows), encoding="utf-8")


def shown(name: str, home: str) -> str:
    """A name as programs write it: `cw.select`, `cw.study.Cohort`, `checkwise.readers.Reader`."""
    last, part = name.rpartition(".")[2], name.split(".")[1]
    if last in checkwise.__all__ and _home(checkwise, last) == home:
        return f"cw.{last}"
    if part in checkwise.study.__all__:
        return name.replace("checkwise.", "cw.study.", 1)
    return name.replace("checkwise.", "cw.", 1) if part in checkwise.__all__ else name


def _home(module: object, name: str) -> str:
    """Where a name is defined; a constant counts as defined where it is listed."""
    thing = getattr(module, name)
    if inspect.isclass(thing) or inspect.isfunction(thing):
        return f"{thing.__module__}.{thing.__qualname__}"
    return f"{getattr(module, '__name__', '')}.{name}"


def _about(path: str) -> str:
    """The first sentence of a docstring."""
    text = _described(path).docstring
    if text is None:
        raise SystemExit(f"Expected a docstring of {path}: it is a public name.")
    first: str = text.value.partition("\n\n")[0]
    return " ".join(first.split()).replace("|", "\\|")


def _described(path: str) -> Any:
    """What is known of a name from reading the source, so that no framework is needed."""
    thing = _package()[path.removeprefix("checkwise.")]
    return thing.final_target if thing.is_alias else thing


@cache
def _package() -> Any:
    return griffe.load("checkwise", search_paths=[str(SOURCE)])
