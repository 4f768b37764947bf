"""How sure a choice is: other validation examples, optimism, the paired bound."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
