"""Studies: train, choose, and compare with held-out results, which only this part opens.

Names and parts are loaded when first used: ``cw.study.Cohort``, ``cw.study.train.build_algorithm``.
"""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
