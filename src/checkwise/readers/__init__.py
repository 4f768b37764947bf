"""What experiment trackers keep: MLflow, Trackio, W&B, Ray."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
