"""What to do with what there is: steps in order of expected gain, each with its evidence."""

from checkwise.advice.answer import Advice, advise

__all__ = ["Advice", "advise"]
