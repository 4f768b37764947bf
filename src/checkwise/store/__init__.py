"""A cohort on disk: whole files, append-only journals, and results that stay apart."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
