"""Facts about runs: frozen, checked once at the door, and with no place for a target."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
