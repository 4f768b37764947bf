"""A plain loop with torch: chosen, kept on disk, recorded; stopped half way and resumed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from topics import small
from topics.run_folder import contents

if TYPE_CHECKING:
    from ask import Side

SETTINGS: dict[str, dict[str, Any]] = {
    "torch": {},
    "torch-wide": {"delta_pp": 3.0, "calibrator": "ts-soften"},
}


def answers(side: Side) -> Iterator[tuple[str, object]]:
    for name, settings in SETTINGS.items():
        folder = Path("callbacks") / name
        half = loop(side, folder, settings, until=60)
        whole = loop(side, folder, settings, until=120)
        yield name, {"half": half, "whole": whole, **contents(side, folder)}


def loop(side: Side, folder: Path, settings: dict[str, Any], *, until: int) -> dict[str, object]:
    with side.public("checkwise:LiveSelector")(
        journal=folder / "checkwise.jsonl", **settings
    ) as live:
        last = max(live.checkpoints, default=0)
        live.resume(last)
        for step, model in small.training(until):
            if step <= last:
                continue
            with torch.no_grad():
                sets = {domain: small.examples(domain) for domain in small.DOMAINS}
                live.add(step, {domain: (model(x), y) for domain, (x, y) in sets.items()})
            weights = folder / f"step-{step}.pt"
            torch.save(model.state_dict(), weights)
            live.saved(step, weights)
            live.prune()
        return {
            "choice": live.choice,
            "path": live.path.name,
            "checkpoints": list(live.checkpoints),
        }
