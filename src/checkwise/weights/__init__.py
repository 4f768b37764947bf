"""From checkpoints to other deployable models: averages, recalibration, ensembles.

Nothing here imports torch until a model is made.
"""

from checkwise.weights.derived import Derived, read_record, read_source, write
from checkwise.weights.methods import Method, get_method, methods, register_method

__all__ = [
    "Derived",
    "Method",
    "get_method",
    "methods",
    "read_record",
    "read_source",
    "register_method",
    "write",
]
