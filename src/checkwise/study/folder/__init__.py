"""A study's folder: its plan, who works on what, sealed results, registrations, packing."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
