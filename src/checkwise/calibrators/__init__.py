"""Logits in, a transform out: calibrators fitted to source-validation logits."""

from checkwise.calibrators.calibrator import Calibrator, Fitted
from checkwise.calibrators.cross_fit import Change, change_of, cross_fitted
from checkwise.calibrators.registry import calibrators, fit, from_dict, get_calibrator

__all__ = [
    "Calibrator",
    "Change",
    "Fitted",
    "calibrators",
    "change_of",
    "cross_fitted",
    "fit",
    "from_dict",
    "get_calibrator",
]
