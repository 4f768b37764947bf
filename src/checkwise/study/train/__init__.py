"""Training: networks, algorithms, hyperparameters and seeds.

Names are loaded when first used, so that reading hyperparameters does not import torch.
"""

from checkwise.doors import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
