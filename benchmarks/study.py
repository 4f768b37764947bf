"""All tables of a made-up study, and the bootstrap against scipy's on the same draws."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rows import Row, in_turn, show
from checkwise.records import RunKey
from checkwise.statistics import SEED, bootstrap_interval
from checkwise.study import Cohort, Pool
from checkwise.study.folder import mark_done, write_cohort
from checkwise.study.tables import build_all

DATASETS = {"PACS": "development", "OfficeHome": "evaluation", "TerraIncognita": "evaluation"}
ALGORITHMS = ("CORAL", "ERM", "GroupDRO", "IRM", "VREx")
DOMAINS = ("a", "b", "c", "d")
CHECKPOINTS = 51
METRICS = ("nll", "brier", "ece", "cwece", "hard_ece", "hard_cwece", "worst_class_accuracy")


def make_cohort(path: Path, roles: Mapping[str, str] = DATASETS, seeds: int = 3) -> Path:
    """540 runs with a plateau of nearly equal accuracies, as training leaves them.

    ``seeds`` of hparams make so many for each 180.
    """
    keys = [
        RunKey(dataset, algorithm, (domain,), h, t)
        for dataset in roles
        for algorithm in ALGORITHMS
        for domain in DOMAINS
        for h in range(seeds)
        for t in range(3)
    ]
    facts: dict[str, Any] = {"study": {}, "metrics": {"bins": 15, "bandwidth": 0.1}}
    write_cohort(path, name="made-up", roles=roles, keys=keys, **facts)
    rng = np.random.default_rng(0)
    for key in keys:
        _write_run(path / "runs" / str(key), key, rng)
    return path


def _write_run(folder: Path, key: RunKey, rng: np.random.Generator) -> None:
    (folder / "heldout").mkdir(parents=True)
    drawn = 10 ** (-4.5 + (3 * (key.hparams_seed % 3 - 1) + key.trial_seed) / 3)
    hparams = {"lr": drawn if key.hparams_seed else 1e-3}
    config = {"bins": 15, "bandwidth": 0.1, "hparams": hparams}
    head = {"schema": 1, "key": key.as_dict(), "config": config, "versions": {}}
    (folder / "run.json").write_text(json.dumps(head))
    sources = [domain for domain in DOMAINS if domain not in key.held_out]
    entries = {domain: _entries(rng, int(rng.integers(300, 900))) for domain in DOMAINS}
    lines = [
        {"step": 100 * t, "diverged": False, "domains": {d: entries[d][t] for d in sources}}
        for t in range(CHECKPOINTS)
    ]
    (folder / "source.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for domain in key.held_out:
        held = [
            {"step": 100 * t, "diverged": False, "split": "in", **entries[domain][t]}
            for t in range(CHECKPOINTS)
        ]
        text = "".join(json.dumps(line) + "\n" for line in held)
        (folder / "heldout" / f"{domain}.jsonl").write_text(text)
    mark_done(folder, 100 * (CHECKPOINTS - 1))


def _entries(rng: np.random.Generator, n: int) -> list[dict[str, Any]]:
    t = np.arange(CHECKPOINTS)
    skill = 0.9 * (1 - np.exp(-(t + 0.5) / 4)) + rng.normal(0, 0.004, CHECKPOINTS)
    correct = np.rint(n * np.clip(skill, 0, 1)).astype(int)
    error = 0.3 + 2 * np.exp(-t / 4) + 0.004 * t
    values = {name: error * rng.uniform(0.9, 1.1, CHECKPOINTS) / 4 for name in METRICS}
    return [
        {
            "n": n,
            "correct": int(correct[i]),
            "accuracy": int(correct[i]) / n,
            **{name: float(column[i]) for name, column in values.items()},
        }
        for i in range(CHECKPOINTS)
    ]


def tables_per_run(path: Path) -> float:
    """Processor seconds to read everything and make every table, for each run."""
    start = time.process_time()
    pool = Pool([Cohort.open(path)])
    for key in pool.keys:
        pool.target(key)
    for _ in build_all(pool):
        pass
    return (time.process_time() - start) / len(pool.keys)


def bootstraps(rules: int) -> float:
    """How often as long scipy takes for ``rules`` contrasts of four metrics, drawing included."""
    import scipy.stats

    values = [np.random.default_rng(k).standard_t(3, (540, 4)) for k in range(rules)]
    seeds = count(SEED + 1)  # a new seed each time: what was drawn is kept otherwise

    def ours(seed: int | None = None) -> Any:
        drawn_by = next(seeds) if seed is None else seed
        return [bootstrap_interval(table, seed=drawn_by) for table in values]

    def theirs() -> Any:
        return [
            scipy.stats.bootstrap(
                (table.T,),
                np.mean,
                axis=-1,
                n_resamples=10_000,
                method="percentile",
                rng=np.random.default_rng(SEED),
            )
            for table in values
        ]

    for mine, other in zip(ours(SEED), theirs(), strict=True):
        np.testing.assert_allclose(mine[0], other.confidence_interval.low, atol=1e-12)
        np.testing.assert_allclose(mine[1], other.confidence_interval.high, atol=1e-12)
    took = in_turn({"ours": ours, "theirs": theirs}, rounds=4)
    return took["theirs"] / took["ours"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        few = make_cohort(Path(folder) / "few")
        many = make_cohort(Path(folder) / "many", seeds=9)
        first, later = tables_per_run(few), tables_per_run(many)
        first = min(first, tables_per_run(few))
    show(
        [
            Row(
                "every table of 1,620 runs, 10,000 resamples, per run",
                "those of 540 runs, per run",
                later / first,
                1.2,
            ),
            Row(
                "intervals of four metrics of four rules over 540 runs",
                "scipy's, on the same draws",
                bootstraps(4),
                8,
                at_least=True,
            ),
        ]
    )


if __name__ == "__main__":
    main()
