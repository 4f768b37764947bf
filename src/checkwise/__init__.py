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

from importlib import import_module
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
    from checkwise import integrations, metrics, study, testing
    from checkwise.integrations.live import LiveSelector
    from checkwise.metrics import metric
    from checkwise.readers import load, load_runs
    from checkwise.records import RunKey, Trajectory
    from checkwise.selection import Choice, Selection, loss_valley, source_accuracy_radius
    from checkwise.selection.rules import rule, rules
    from checkwise.selection.select import select, select_many
    from checkwise.weights.deploy import deploy

__version__ = "0.2.0"

# What people learn first; the parts have the rest. Loaded when first asked for, so that a command
# imports only what it uses.
__all__ = [
    "CheckwiseError",
    "CheckwiseWarning",
    "Choice",
    "InputError",
    "LiveSelector",
    "MissingExtraError",
    "MissingMetricError",
    "NoGuaranteeError",
    "RunKey",
    "Selection",
    "Trajectory",
    "deploy",
    "integrations",
    "load",
    "load_runs",
    "loss_valley",
    "metric",
    "metrics",
    "rule",
    "rules",
    "select",
    "select_many",
    "source_accuracy_radius",
    "study",
    "testing",
]
_HOMES = {
    "LiveSelector": "integrations",
    "RunKey": "records",
    "Trajectory": "records",
    "deploy": "weights.deploy",
    "load": "readers",
    "load_runs": "readers",
    "metric": "metrics",
}
_PARTS = ("integrations", "metrics", "study", "testing")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'checkwise' has no attribute {name!r}")
    from checkwise.extras import naming_extras

    with naming_extras():
        if name in _PARTS:
            return import_module(f"checkwise.{name}")
        value = getattr(import_module(f"checkwise.{_HOMES.get(name, 'selection')}"), name)
    globals()[name] = value  # the next use is as quick as any name
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
