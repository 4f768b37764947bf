"""checkwise picks the training checkpoint whose probabilities you can trust.

Example:
    >>> import checkwise as cw
    >>> run = cw.Trajectory.from_frame({
    ...     "step": [100, 200, 300],
    ...     "accuracy": [0.900, 0.895, 0.850],
    ...     "nll": [0.70, 0.40, 0.35],
    ...     "cwece": [0.020, 0.010, 0.008],
    ... })
    >>> cw.select(run).step
    200
"""

from typing import TYPE_CHECKING, Any

from checkwise.errors import (
    CheckwiseError,
    CheckwiseWarning,
    InputError,
    MissingExtraError,
    MissingMetricError,
    NoGuaranteeError,
)

if TYPE_CHECKING:
    from checkwise import (
        calibrators,
        data,
        deployed,
        figures,
        integrations,
        metrics,
        page,
        predict,
        readers,
        statistics,
        store,
        study,
        sweep,
        tables,
        testing,
        train,
        weights,
    )
    from checkwise.integrations.live import LiveSelector
    from checkwise.metrics import metric
    from checkwise.readers import load, load_runs
    from checkwise.records import RunKey, Trajectory
    from checkwise.selection import (
        Guarantee,
        LossValley,
        Selection,
        loss_valley,
        source_accuracy_radius,
        worst_domain_radius,
    )
    from checkwise.selection.rules import Rule, rule, rules
    from checkwise.selection.select import select, select_many
    from checkwise.study import Cohort
    from checkwise.weights.deploy import deploy

__version__ = "0.2.0"

# Loaded when first asked for, so that a command imports only what it uses.
_NAMES = {
    "checkwise.integrations": ("LiveSelector",),
    "checkwise.metrics": ("metric",),
    "checkwise.readers": ("load", "load_runs"),
    "checkwise.records": ("RunKey", "Trajectory"),
    "checkwise.selection": (
        "Guarantee",
        "LossValley",
        "Rule",
        "Selection",
        "loss_valley",
        "rule",
        "rules",
        "select",
        "select_many",
        "source_accuracy_radius",
        "worst_domain_radius",
    ),
    "checkwise.study": ("Cohort",),
    "checkwise.weights.deploy": ("deploy",),
}
_LATER = {name: module for module, names in _NAMES.items() for name in names}
_PARTS = (
    "calibrators",
    "data",
    "deployed",
    "figures",
    "integrations",
    "metrics",
    "page",
    "predict",
    "readers",
    "records",
    "selection",
    "statistics",
    "store",
    "study",
    "sweep",
    "tables",
    "testing",
    "train",
    "weights",
)

__all__ = [
    "CheckwiseError",
    "CheckwiseWarning",
    "Cohort",
    "Guarantee",
    "InputError",
    "LiveSelector",
    "LossValley",
    "MissingExtraError",
    "MissingMetricError",
    "NoGuaranteeError",
    "Rule",
    "RunKey",
    "Selection",
    "Trajectory",
    "calibrators",
    "data",
    "deploy",
    "deployed",
    "figures",
    "integrations",
    "load",
    "load_runs",
    "loss_valley",
    "metric",
    "metrics",
    "page",
    "predict",
    "readers",
    "rule",
    "rules",
    "select",
    "select_many",
    "source_accuracy_radius",
    "statistics",
    "store",
    "study",
    "sweep",
    "tables",
    "testing",
    "train",
    "weights",
    "worst_domain_radius",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    from checkwise.extras import naming_extras

    with naming_extras():
        if name in _PARTS:
            return import_module(f"checkwise.{name}")
        if name in _LATER:
            value = getattr(import_module(_LATER[name]), name)
            globals()[name] = value  # the next use is as quick as any name
            return value
    raise AttributeError(f"module 'checkwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PARTS})
