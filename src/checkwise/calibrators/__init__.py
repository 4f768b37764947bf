"""Logits in, a transform out: calibrators fitted to source-validation logits."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
