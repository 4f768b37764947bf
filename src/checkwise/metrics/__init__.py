"""Arrays in, numbers out: one pass gives every metric of a set of predictions.

Importing this package imports no torch.

Example:
    >>> from checkwise import metrics
    >>> report = metrics.evaluate(probs=[[0.75, 0.25], [0.5, 0.5]], labels=[0, 1])
    >>> report.accuracy, report.brier
    (0.5, 0.3125)
"""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
