"""Inside trainers and trackers; each module imports its framework only when it is used."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
