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

from checkwise.doors import door

__version__ = "0.2.0"

# What people learn first; the parts have the rest.
__getattr__, __dir__, __all__ = door(__name__, __file__)
