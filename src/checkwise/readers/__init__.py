"""What people have becomes trajectories: logs, tables, trackers' stores, predictions, runs."""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
