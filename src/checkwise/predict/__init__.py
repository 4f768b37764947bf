"""Outputs of saved checkpoints, by a function of the user's, in worker processes."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
