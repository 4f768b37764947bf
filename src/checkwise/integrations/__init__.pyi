__all__: list[str]

from checkwise.integrations.live import LiveSelector as LiveSelector
