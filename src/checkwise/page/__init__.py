"""One self-contained page: the answer in words, then what it rests on."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
