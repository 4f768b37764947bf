"""The seed of a run's initialisation, sampling and dropout: what the run is, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from checkwise.data.seeds import seed_hash as seed_hash


def training_seed(
    dataset: str,
    algorithm: str,
    held_out: Sequence[int],
    *,
    hparams_seed: int,
    trial_seed: int,
) -> int:
    """The seed of initialisation, sampling and dropout of one run; `held_out` are domain indices.

    >>> training_seed("PACS", "ERM", [0], hparams_seed=0, trial_seed=0)
    94828300
    """
    return seed_hash(dataset, algorithm, list(held_out), hparams_seed, trial_seed)


def shared_init_seed(dataset: str, algorithm: str, held_out: Sequence[int]) -> int:
    """The seed of the first weights where runs share them over hyperparameters and trials."""
    return seed_hash(dataset, algorithm, list(held_out), "init")
