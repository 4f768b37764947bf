"""Live selection: what is chosen, kept and droppable after every step, and when opened again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ask import Side

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "wide": {"delta_pp": 3.0},
    "nll": {"rule": "ac-nll", "weights": "sample"},
    "worst-domain": {"worst_domain": True},
    "paired": {"tolerance": "paired", "alpha": 0.1},
    "pure": {"rule": "pure-nll"},
    "calibrated": {"calibrator": "ts-soften"},
    "few-errors": {},
}


def answers(side: Side) -> Iterator[tuple[str, object]]:
    selector = side.public("checkwise:LiveSelector")
    for name, settings in SETTINGS.items():
        folder = Path("live") / name
        journal = folder / "checkwise.jsonl"
        with selector(journal=journal, **settings) as live:
            said = [
                fed(live, step, folder, easy=name == "few-errors") for step in range(0, 900, 50)
            ]
        with selector(journal=journal, **settings) as live:
            reopened = [state(live), fed(live, 900, folder, easy=False), selection(live)]
            pruned = sorted(path.name for path in folder.glob("*.pt")) if live.prune() else []
        left = sorted(path.name for path in folder.glob("*.pt"))
        yield name, {"steps": said, "reopened": reopened, "before": pruned, "after": left}
        yield f"{name}-journal", side.read(journal)


def fed(live: Any, step: int, folder: Path, *, easy: bool) -> dict[str, object]:
    """The state after one more checkpoint; the one of step 300 diverged."""
    rng = np.random.default_rng(step)
    sets = {}
    for domain, n in (("photo", 150), ("sketch", 90)):
        labels = np.random.default_rng(n).integers(0, 4, n)
        strength = 40.0 if easy and step > 200 else min(1 + step / 200, 4)
        logits = np.eye(4)[labels] * strength + rng.normal(size=(n, 4)) * (1 + step / 600)
        sets[domain] = (np.full_like(logits, np.nan) if step == 300 else logits, labels)
    live.add(step, sets)
    weights = folder / f"{step}.pt"
    weights.write_bytes(b"w")
    live.saved(step, weights)
    return state(live)


def state(live: Any) -> dict[str, object]:
    return {"choice": live.choice, "keep": list(live.keep), "droppable": list(live.droppable)}


def selection(live: Any) -> dict[str, object]:
    chosen = live.selection
    return {
        "step": chosen.step,
        "score": chosen.score,
        "accuracy": chosen.accuracy,
        "gap_pp": chosen.gap_pp,
        "feasible_steps": list(chosen.feasible_steps),
    }
