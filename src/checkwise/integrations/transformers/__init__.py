"""Selection inside a Trainer of transformers, and its metrics alone.

``ReliabilityCallback`` imports transformers when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checkwise.errors import naming_extras
from checkwise.integrations.transformers.metrics import ReliabilityMetrics, reliability_metrics

if TYPE_CHECKING:
    from checkwise.integrations.transformers.callback import ReliabilityCallback

__all__ = ["ReliabilityCallback", "ReliabilityMetrics", "reliability_metrics"]


def __getattr__(name: str) -> Any:
    if name == "ReliabilityCallback":
        with naming_extras():
            import transformers  # noqa: F401  (before what comes with it, so that it is named)
        from checkwise.integrations.transformers.callback import ReliabilityCallback

        return ReliabilityCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
