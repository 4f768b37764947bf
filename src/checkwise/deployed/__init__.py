"""From a choice to a model with its calibrator and card, and back into a process."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
