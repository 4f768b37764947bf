"""Other models from the checkpoints of runs: averages, SWAD, ensembles, other protocols."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
