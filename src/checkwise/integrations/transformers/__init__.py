"""Selection inside a Trainer of transformers, and its metrics alone."""

from checkwise.integrations.transformers.callback import ReliabilityCallback
from checkwise.integrations.transformers.metrics import ReliabilityMetrics, reliability_metrics

__all__ = ["ReliabilityCallback", "ReliabilityMetrics", "reliability_metrics"]
