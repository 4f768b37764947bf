"""A training in one process or in two; every process writes what it saw.

``python -m tests.integrations.transformers_ranks FOLDER`` trains in two processes that meet by
gloo, and then resumes in two others: with all logits at once, and streamed under a tolerance that
compares examples.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from checkwise.integrations.transformers import ReliabilityCallback
from tests.forked_ranks import in_two
from tests.integrations.transformers_runs import arguments, known_script, scripted_trainer

MODES = ("whole", "streamed-paired")
UNLIKE = ("per_second", "time", "epoch")  # of two processes
TWO = {"art": slice(0, 17), "photo": slice(17, 41)}


def train(folder: Path, mode: str, steps: int, *, resume: bool = False) -> None:
    """Train on 17 and 24 examples, of which two processes with batches of 4 have uneven shares."""
    table, labels = known_script()
    paired: Any = {"tolerance": "paired", "alpha": 0.5} if mode.endswith("-paired") else {}
    callback = ReliabilityCallback(delta_pp=4, calibrator="ts-soften", **paired)
    backend = "gloo" if "RANK" in os.environ else None
    changes = {"batch_eval_metrics": mode.startswith("streamed"), "ddp_backend": backend}
    args = arguments(folder / mode, steps=steps, every=1, **changes)
    trainer = scripted_trainer(args, table, labels, callback, every=1, sets=TWO)
    trainer.train(resume_from_checkpoint=resume or None)
    chosen = callback.selection
    if chosen is not None:  # the main process has the records
        said = chosen.trajectory.examples
        seen = {"feasible": list(chosen.feasible_steps), "examples": said and said.digest}
        (folder / f"{mode}-chosen.json").write_text(json.dumps(seen))
    facts = {
        "processes": trainer.args.world_size,
        "choice": callback.choice,
        "best": trainer.state.best_global_step,
        "score": trainer.state.best_metric,
        "loaded": trainer.accelerator.unwrap_model(trainer.model).step.item(),
        "metrics": [
            {name: value for name, value in line.items() if not name.endswith(UNLIKE)}
            for line in trainer.state.log_history
            if any(name.endswith("_nll") for name in line)
        ],
    }
    rank = os.environ.get("RANK", "alone")
    (folder / f"{mode}-{rank}.json").write_text(json.dumps(facts))


def train_in_two(folder: Path, steps: int, *, resume: bool) -> None:
    """Every mode in two processes."""

    def every_mode() -> None:
        for mode in MODES:
            train(folder, mode, steps, resume=resume)

    in_two(every_mode)


if __name__ == "__main__":
    train_in_two(Path(sys.argv[1]), 5, resume=False)
    train_in_two(Path(sys.argv[1]), 10, resume=True)
