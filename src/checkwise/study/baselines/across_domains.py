"""Choices by what source domains have in common, from weights that were kept.

After Lyu et al. (2023): low validation loss, then risk plus the discrepancy between source domains,
their MMD or CORAL distance in feature space, a mean over pairs of domains.

After Lu et al. (2023): validate on mixtures. For every pair of source domains, validation rows are
paired at random (as many as the smaller split has), their inputs mixed as λ·x + (1 − λ)·x' with λ
uniform on 0–1, and both labels kept. The draw depends on the run alone, so every checkpoint sees
the same mixtures. With p the prediction on a mixture,

- accuracy = mean of λ·[argmax p = y] + (1 − λ)·[argmax p = y'],
- loss = mean of −λ·log p[y] − (1 − λ)·log p[y'],

averaged over pairs of domains. ``mixup-acc`` takes the highest accuracy, ``mixup-loss`` the
lowest loss, the earliest on ties, among all checkpoints that did not diverge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from checkwise.deployed import read_checkpoint
from checkwise.errors import InputError
from checkwise.selection import Columns, distance, normalise
from checkwise.study.baselines.recipe import Model, Plan, Recipe, StoredRun, Values
from checkwise.study.data import seed_hash

if TYPE_CHECKING:
    from torch import Tensor

    from checkwise.study.baselines.evaluate import OpenRun

FloatArray = NDArray[np.float64]


def mmd(domains: Sequence[FloatArray]) -> float:
    """The mean over pairs of domains of MMD² with a Gaussian kernel.

    k(x, y) = exp(−|x − y|² / (2·s²)) with s² half the median squared distance between two different
    rows of any domain, so that rescaling all features changes nothing. MMD² is the biased estimate
    mean k(X, X) + mean k(Y, Y) − 2·mean k(X, Y), which is never negative.

    Example:
        >>> near = np.array([[0.0], [1.0]])
        >>> mmd([near, near]), mmd([near, near + 5]) > mmd([near, near + 1])
        (0.0, True)
    """
    rows = np.concatenate(domains)
    squares = (rows**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares[None, :] - 2 * rows @ rows.T, 0.0)
    apart = distances[np.triu_indices(len(rows), k=1)]
    middle = float(np.median(apart)) or 1.0
    kernel = np.exp(-distances / middle)
    edges = np.cumsum([0, *(len(part) for part in domains)])
    means = np.array(
        [
            [kernel[a:b, c:d].mean() for c, d in pairwise(edges.tolist())]
            for a, b in pairwise(edges.tolist())
        ]
    )
    pairs = combinations(range(len(domains)), 2)
    return float(np.mean([means[i, i] + means[j, j] - 2 * means[i, j] for i, j in pairs]))


def coral(domains: Sequence[FloatArray]) -> float:
    """The mean over pairs of domains of |C_i − C_j|² / (4·d²).

    C is the covariance (divided by n − 1) of the d features, each first divided by its standard
    deviation over all domains, so that the size of the features does not decide.

    Example:
        >>> wide = np.array([[0.0], [2.0]])
        >>> coral([wide, wide]), coral([wide, 2 * wide]) > 0
        (0.0, True)
    """
    rows = np.concatenate(domains)
    spread = rows.std(axis=0)
    spread[spread == 0] = 1.0
    covariances = [np.atleast_2d(np.cov((part / spread).T)) for part in domains]
    width = rows.shape[1]
    pairs = combinations(covariances, 2)
    return float(np.mean([((a - b) ** 2).sum() / (4 * width**2) for a, b in pairs]))


DISCREPANCIES: Final = {"mmd": mmd, "coral": coral}
RATIO: Final = 0.1  # how far above the lowest loss a candidate may lie


def _check_several(run: StoredRun) -> None:
    if len(run.trajectory.domains) < 2:
        raise InputError(
            f"Expected at least 2 source domains to compare, but {run.key} has one: use a rule "
            "that needs only one.",
            code="unsupported",
        )


def plan(run: StoredRun, params: Values) -> Plan:
    _check_several(run)
    table = Columns.of(run.trajectory)
    usable = ~table["diverged"]
    loss = np.where(usable, table["nll"], np.inf)
    low = loss <= (1 + float(params["ratio"])) * loss.min()
    return Plan(
        {
            "candidates": run.trajectory.steps[low].tolist(),
            "risk": loss[low].tolist(),
            "source.jsonl": run.source_digest,
        }
    )


def make(run: OpenRun, inputs: Values, params: Values) -> Model:
    measure = DISCREPANCIES[str(params["discrepancy"])]
    apart = []
    for step in inputs["candidates"]:
        run.load(read_checkpoint(run.folder, step))
        apart.append(measure(list(source_features(run).values())))
    errors = np.array([inputs["risk"], apart])
    score = distance(normalise(errors, np.ones(len(apart), dtype=bool)), 1)
    return chosen(run, inputs["candidates"], score)


def chosen(run: OpenRun, steps: Sequence[int], score: FloatArray) -> Model:
    """The saved checkpoint of smallest score, the earliest on ties."""
    step = steps[int(np.argmin(score))]
    return Model(run.checkpoint_outputs(step), None, (f"step {step} of {len(steps)} candidates",))


def source_features(run: OpenRun) -> dict[str, FloatArray]:
    """What the featurizer makes of every source domain's validation split."""
    import torch

    algorithm = run.algorithm.eval()
    features = {}
    with torch.inference_mode():
        for part in run.source_parts:
            size = run.data.inputs.rows_at_once
            rows = [part.rows[at : at + size] for at in range(0, len(part.rows), size)]
            batches = (run.data.inputs.rows(part.index, some) for some in rows)
            outputs = torch.cat([algorithm.featurizer(batch) for batch in batches])
            features[part.domain] = outputs.double().cpu().numpy()
    return features


@dataclass(frozen=True, eq=False)
class Mixture:
    """Mixed inputs of one pair of domains, the share of the first, and both labels."""

    x: Tensor
    share: Tensor
    first: Tensor
    second: Tensor


def plan_mixed(run: StoredRun, params: Values) -> Plan:
    _check_several(run)
    usable = run.trajectory.steps[~run.trajectory.diverged]
    return Plan({"candidates": usable.tolist(), "source.jsonl": run.source_digest})


def make_mixed(run: OpenRun, inputs: Values, params: Values) -> Model:
    mixtures = mix(run)
    scores = []
    for step in inputs["candidates"]:
        run.load(read_checkpoint(run.folder, step))
        accuracy, loss = np.mean([judge(run.algorithm.predict(m.x), m) for m in mixtures], axis=0)
        scores.append(-accuracy if params["by"] == "accuracy" else loss)
    return chosen(run, inputs["candidates"], np.array(scores))


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


_LYU = Recipe.of_each(
    "low validation loss, then risk plus MMD between domains",
    plan,
    make,
    {"discrepancy": "mmd", "ratio": RATIO},
)
_MIXUP = Recipe.of_each(
    "highest accuracy on validation pairs mixed across domains",
    plan_mixed,
    make_mixed,
    {"by": "accuracy"},
)
ACROSS_DOMAINS: Final = {
    "lyu-mmd": _LYU,
    "lyu-coral": _LYU.variant(
        "low validation loss, then risk plus CORAL distance", discrepancy="coral"
    ),
    "mixup-acc": _MIXUP,
    "mixup-loss": _MIXUP.variant("lowest loss on validation pairs mixed across domains", by="loss"),
}
