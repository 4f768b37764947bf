"""Outputs of saved checkpoints, by a function of the user's: ``checkwise predict``."""
