"""Facts about runs: frozen, checked once at the door, and with no place for a target."""

from checkwise.records.runkey import RunKey
from checkwise.records.trajectory import Trajectory

__all__ = ["RunKey", "Trajectory"]
