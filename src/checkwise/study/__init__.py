"""Studies: train, choose, and compare with held-out results, which only this part opens.

Names and parts are loaded when first used: ``cw.study.Cohort``, ``cw.study.train.build_algorithm``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from checkwise.extras import naming_extras

if TYPE_CHECKING:
    from checkwise import data, figures, statistics, sweep, tables, train, weights
    from checkwise.statistics.bootstrap import percentile_interval
    from checkwise.study.cohort import Cohort
    from checkwise.study.compare import Contrast, Differences
    from checkwise.study.compared_method import Method
    from checkwise.study.methods import method
    from checkwise.study.outcome import Outcome

__all__ = [
    "Cohort",
    "Contrast",
    "Differences",
    "Method",
    "Outcome",
    "data",
    "figures",
    "method",
    "percentile_interval",
    "statistics",
    "sweep",
    "tables",
    "train",
    "weights",
]
_HOMES = {
    "Cohort": "study.cohort",
    "Contrast": "study.compare",
    "Differences": "study.compare",
    "Method": "study.compared_method",
    "Outcome": "study.outcome",
    "method": "study.methods",
    "percentile_interval": "statistics.bootstrap",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with naming_extras():
        home = import_module(f"checkwise.{_HOMES.get(name, name)}")
    return getattr(home, name) if name in _HOMES else home


def __dir__() -> list[str]:
    return sorted(__all__)
