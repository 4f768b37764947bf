"""After Lu et al. (2023): validate on mixtures of examples from different source domains.

For every pair of source domains, validation rows are paired at random (as many as the smaller
split has), their inputs mixed as λ·x + (1 − λ)·x' with λ uniform on 0–1, and both labels kept.
The draw depends on the run alone, so every checkpoint sees the same mixtures. With p the
prediction on a mixture,

- accuracy = mean of λ·[argmax p = y] + (1 − λ)·[argmax p = y'],
- loss = mean of −λ·log p[y] − (1 − λ)·log p[y'],

averaged over pairs of domains. ``mixup-acc`` takes the highest accuracy, ``mixup-loss`` the
lowest loss, the earliest on ties. All checkpoints that did not diverge are candidates; their
weights have to be kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from checkwise.deployed import read_checkpoint
from checkwise.errors import InputError
from checkwise.study.baselines.lyu import chosen
from checkwise.study.baselines.recipe import Model, Plan, Recipe, StoredRun
from checkwise.study.data import seed_hash

if TYPE_CHECKING:
    from torch import Tensor

    from checkwise.study.baselines.evaluate import OpenRun


@dataclass(frozen=True, eq=False)
class Mixture:
    """Mixed inputs of one pair of domains, the share of the first, and both labels."""

    x: Tensor
    share: Tensor
    first: Tensor
    second: Tensor


def plan(runs: Sequence[StoredRun], params: Mapping[str, Any]) -> Plan:
    """Every checkpoint whose outputs were finite."""
    (run,) = runs
    if len(run.trajectory.domains) < 2:
        raise InputError(
            f"Expected at least 2 source domains to mix, but {run.key} has one: use a rule that "
            "needs only one.",
            code="unsupported",
        )
    usable = run.trajectory.steps[~run.trajectory.diverged]
    return Plan({"candidates": usable.tolist(), "source.jsonl": run.source_digest})


def make(
    runs: Sequence[OpenRun], inputs: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[Any, Model]:
    """The checkpoint that does best on the mixtures, as it was saved."""
    (run,) = runs
    mixtures = mix(run)
    scores = []
    for step in inputs["candidates"]:
        run.load(read_checkpoint(run.folder, step))
        accuracy, loss = np.mean([judge(run.algorithm.predict(m.x), m) for m in mixtures], axis=0)
        scores.append(-accuracy if params["by"] == "accuracy" else loss)
    return {run.key: chosen(run, inputs["candidates"], np.array(scores))}


def mix(run: OpenRun) -> list[Mixture]:
    """The mixtures of a run, one per pair of its source domains."""
    import torch

    random = np.random.default_rng(seed_hash("mixup", str(run.key)))
    mixtures = []
    for one, other in combinations(run.source_parts, 2):
        n = min(len(one.rows), len(other.rows))
        at, to = random.permutation(len(one.rows))[:n], random.permutation(len(other.rows))[:n]
        share = torch.from_numpy(random.uniform(size=n)).float().to(run.data.device)
        x = run.data.inputs.rows(one.index, one.rows[at])
        other_x = run.data.inputs.rows(other.index, other.rows[to])
        weight = share.view(-1, *[1] * (x.dim() - 1))
        mixtures.append(
            Mixture(
                weight * x + (1 - weight) * other_x,
                share,
                torch.from_numpy(one.labels[at]).to(run.data.device),
                torch.from_numpy(other.labels[to]).to(run.data.device),
            )
        )
    return mixtures


def judge(logits: Tensor, mixture: Mixture) -> tuple[float, float]:
    """Accuracy and loss of the predictions on a mixture."""
    import torch

    share, first, second = mixture.share, mixture.first, mixture.second
    guess = logits.argmax(dim=1)
    log_p = logits.double().log_softmax(dim=1)
    correct = share * (guess == first) + (1 - share) * (guess == second)
    rows = torch.arange(len(share), device=log_p.device)
    loss = -(share * log_p[rows, first] + (1 - share) * log_p[rows, second])
    return float(correct.double().mean()), float(loss.mean())


MIXUP_ACC = Recipe(
    "highest accuracy on validation pairs mixed across domains", plan, make, {"by": "accuracy"}
)
MIXUP_LOSS = MIXUP_ACC.variant("lowest loss on validation pairs mixed across domains", by="loss")
