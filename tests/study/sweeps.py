"""Sweeps and tables as other tools write them, with results on held-out domains."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.records import RunKey

STEPS = tuple(range(0, 1001, 100))
ENVS = 4
SEEDS = [(hparams, trial) for hparams in range(2) for trial in range(2)]


def domainbed_sweep(folder: Path, *, seed: int = 0) -> Path:
    """Sixteen runs in folders named by hashes: four held-out domains, two seeds of each kind."""
    random = np.random.default_rng(seed)
    for target in range(ENVS):
        for hparams, trial in SEEDS:
            place = folder / f"{target}{hparams}{trial}f00d"
            place.mkdir(parents=True)
            lines = _records(random, target, hparams, trial)
            write_jsonl(place / "results.jsonl", lines)
            (place / "done").write_text("done")
    return folder


def _records(
    random: np.random.Generator, target: int, hparams: int, trial: int
) -> Iterator[dict[str, Any]]:
    for t, step in enumerate(STEPS):
        level = 0.9 - 0.5 * np.exp(-t / 2)
        record: dict[str, Any] = {
            "args": {
                "dataset": "PACS",
                "algorithm": "ERM",
                "test_envs": [target],
                "hparams_seed": hparams,
                "trial_seed": trial,
            },
            "hparams": {"lr": 1e-4 * (1 + hparams), "nonlinear": False},
            "step": step,
            "loss": 1.0,
        }
        for env in range(ENVS):
            drop = 0.2 + 0.01 * t if env == target else 0.0
            for split in ("in", "out"):
                accuracy = np.clip(level - drop + random.normal(0, 0.004), 0, 1)
                record[f"env{env}_{split}_acc"] = float(accuracy)
        yield record


def write_jsonl(path: Path, records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def tidy_rows(cohort: Path) -> list[dict[str, Any]]:
    """Every journal of a cohort of ours as rows of one table, source and target."""
    rows = []
    for folder in sorted((cohort / "runs").iterdir()):
        if not (folder / "done").is_file():
            continue
        key = RunKey.from_dict(json.loads((folder / "run.json").read_text())["key"])
        facts = {**key.as_dict(), "held_out": "+".join(key.held_out)}
        for line in read_jsonl(folder / "source.jsonl"):
            rows += [
                _tidy(facts, line, domain, "source", values)
                for domain, values in line["domains"].items()
            ]
        for domain in key.held_out:
            journal = read_jsonl(folder / "heldout" / f"{domain}.jsonl")
            rows += [_tidy(facts, line, domain, "target", line) for line in journal]
    return rows


def _tidy(
    facts: Mapping[str, Any],
    line: Mapping[str, Any],
    domain: str,
    role: str,
    values: Mapping[str, Any],
) -> dict[str, Any]:
    other = ("step", "diverged", "split")
    metrics = {name: value for name, value in values.items() if name not in other}
    return {**facts, "step": line["step"], "domain": domain, "role": role, **metrics}
