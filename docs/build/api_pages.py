"""Pages of the API reference: which names, on which page. The texts are the docstrings.

The names are those of `checkwise`, those of its parts that people use, and the integrations'.
"""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import griffe

import checkwise

SOURCE = Path(__file__).parents[2] / "src"

# Page → package, and the names of its door that people use; the others are for checkwise itself.
PUBLIC = {
    "selection": (
        "selection",
        "DEFAULT_RULE Choice Columns Guarantee LiveSelection LossValley Rule Selection "
        "get_rule is_rule loss_valley members rule rules select select_many "
        "source_accuracy_radius usable_rules worst_domain_radius KeepFeasible KeepMembers "
        "KeepLast KeepEvery AnyOf",
    ),
    "sure": ("sure", "Stability"),
    "readers": ("readers", "load load_runs"),
    "records": ("records", "RunKey Trajectory"),
    "metrics": (
        "metrics",
        "METRICS Accumulator Metric PerExample Report accuracy brier cwece debiased_cwece "
        "debiased_ece ece evaluate evaluate_registered get_metric hard_cwece hard_ece "
        "is_metric metric nll per_example smece to_numpy worst_class_accuracy",
    ),
    "calibrators": (
        "calibrators",
        "Calibrator Change Fitted calibrators change_of cross_fitted fit fit_temperature "
        "from_dict get_calibrator",
    ),
    "deployed": ("deployed", "Calibrated Deployed deploy load"),
    "testing": ("testing", "check_metric check_rule"),
    "data": (
        "study.data",
        "DATASETS EMBEDDED DomainDataset MinibatchSampler Place augment "
        "cache_dir dataset_names domain_names from_arrays frozen_features list_images "
        "open_dataset open_features open_image_folder seed_hash split split_both split_groups "
        "with_classes with_places",
    ),
    "train": (
        "study.train",
        "Algorithm Hyperparameter algorithm algorithm_names build_algorithm default_hparams "
        "draw_hparams hparams_for training_seed",
    ),
    "baselines": ("study.baselines", "Derived Recipe read_record read_source write"),
    "study": (
        "study",
        "Cohort Contrast Differences Method Outcome method clusters unit_intervals "
        "contrast_results registered_sets",
    ),
    "inference": ("study.inference", "cluster_means wild_interval equivalence"),
    "statistics": ("statistics", "bootstrap_interval"),
    "tables": ("study.tables", "SLOW TABLES Cell Table build build_all check_name usual_names"),
    "figures": ("study.figures", "FIGURES write_figures"),
    "report": ("study.report", "write_report"),
}
# What can be imported from elsewhere. Frameworks need not be installed to be described.
FRAMEWORKS = {
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
}
ERRORS = "errors"
INTEGRATIONS = "integrations"
TITLES = {
    "selection": "Choosing",
    "sure": "How sure",
    "readers": "Reading logs and tables",
    "records": "Records of runs",
    "metrics": "Metrics",
    "calibrators": "Calibrators",
    "deployed": "Deployed models",
    INTEGRATIONS: "Inside trainers and trackers",
    "testing": "Testing your own rules and metrics",
    "data": "Data sets",
    "train": "Training",
    "baselines": "Averages and ensembles",
    "study": "Comparing",
    "inference": "Inference",
    "statistics": "Statistics",
    "tables": "Tables",
    "figures": "Figures",
    "report": "Report",
    ERRORS: "Errors",
}
INTRODUCTION = """\
# Python

What `import checkwise as cw` offers, from the docstrings. Names that are not listed here may
change without notice.

| name | what |
| --- | --- |
"""


def names(page: str) -> dict[str, str]:
    """The public names on a page, as one imports them, and where the code of each is."""
    if page == INTEGRATIONS:
        paths = [
            f"checkwise.integrations.{m}.{n}" for m, found in FRAMEWORKS.items() for n in found
        ]
        described = {path: _described(path).path for path in paths}
        live = "checkwise.integrations.LiveSelector"
        return {
            live: _home(importlib.import_module("checkwise.integrations"), "LiveSelector"),
            **described,
        }
    if page == ERRORS:
        module = importlib.import_module("checkwise.errors")
        return {
            f"checkwise.{n}": f"checkwise.errors.{n}"
            for n in vars(module)
            if n in checkwise.__all__
        }
    package, listed = PUBLIC[page]
    module = importlib.import_module(f"checkwise.{package}")
    found = {f"checkwise.{package}.{name}": _home(module, name) for name in listed.split()}
    return dict(sorted(found.items(), key=lambda item: shown(*item).count(".")))


def write(folder: Path) -> None:
    """Write the pages as mkdocstrings wants them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for part, title in TITLES.items():
        package = PUBLIC[part][0] if part in PUBLIC else part
        lines = [f"# {title}\n", f"{_about(f'checkwise.{package}')}\n"]
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
    return name.replace("checkwise.", "cw.", 1) if part in checkwise.__all__ else name


def _home(module: ModuleType, name: str) -> str:
    """Where a name is defined: of a constant, where the stub of its package takes it from."""
    thing = getattr(module, name)
    if inspect.isclass(thing) or inspect.isfunction(thing):
        return f"{thing.__module__}.{thing.__qualname__}"
    stub = Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8")
    found = re.search(rf"^from (\S+) import {name} as {name}$", stub, re.MULTILINE)
    return f"{found[1] if found else module.__name__}.{name}"


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
