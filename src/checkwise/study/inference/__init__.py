"""Inference over runs that share seeds and places: clusters, tests, spreads."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
