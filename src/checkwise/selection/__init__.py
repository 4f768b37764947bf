"""Trajectory in, Selection out. Nothing here knows torch, files or held-out results."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
