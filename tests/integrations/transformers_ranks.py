"""One process of a training, alone or under ``torch.distributed.run``; writes what it saw.

``python -m tests.integrations.transformers_ranks FOLDER STEPS [resume]`` trains twice: with all
logits at once, and streamed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from checkwise.integrations.transformers import ReliabilityCallback
from tests.integrations.transformers_runs import arguments, known_script, scripted_trainer

MODES = ("whole", "streamed")
UNLIKE = ("per_second", "time", "epoch")  # of two processes
TWO = {"art": slice(0, 17), "photo": slice(17, 41)}


def train(folder: Path, mode: str, steps: int, *, resume: bool = False) -> None:
    """Train on 17 and 24 examples, of which two processes with batches of 4 have uneven shares."""
    table, labels = known_script()
    callback = ReliabilityCallback(delta_pp=4)
    backend = "gloo" if "RANK" in os.environ else None
    changes = {"batch_eval_metrics": mode == "streamed", "ddp_backend": backend}
    args = arguments(folder / mode, steps=steps, every=1, **changes)
    trainer = scripted_trainer(args, table, labels, callback, every=1, sets=TWO)
    trainer.train(resume_from_checkpoint=resume or None)
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


if __name__ == "__main__":
    for mode in MODES:
        train(Path(sys.argv[1]), mode, int(sys.argv[2]), resume=sys.argv[3:] == ["resume"])
