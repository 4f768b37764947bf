"""From checkpoints to other deployable models: averages, recalibration, ensembles.

Nothing here imports torch until a model is made.
"""

from checkwise.weights.derived import Derived, read_record, read_source, write
from checkwise.weights.recipe import Recipe

__all__ = [
    "Derived",
    "Recipe",
    "read_record",
    "read_source",
    "write",
]
