"""The page of a study: its facts, then the drawing."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
