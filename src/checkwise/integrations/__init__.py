"""Inside trainers and trackers; each module imports its framework only when it is used."""

from checkwise.integrations.live import LiveSelector

__all__ = ["LiveSelector"]
