"""Every table of a study, as functions of one or several cohorts."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
