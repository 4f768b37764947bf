"""The command line: parse, call, print."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
