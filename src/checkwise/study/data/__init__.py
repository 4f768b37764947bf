"""Domain data sets: image folders, feature files, embedded digits; splits, sampling, caches."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
