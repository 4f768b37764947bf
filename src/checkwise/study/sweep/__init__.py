"""Study files, the runs they plan, and the processes that train them."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
