"""Pruning: what a dry run says, and which files are left after ``--apply``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ask import Side

SCORES = {
    500: (0.80, 0.5),
    1000: (0.90, 0.4),
    1500: (0.897, 0.3),
    2000: (0.85, 0.2),
    2500: (0.893, 0.35),
    3000: (0.896, 0.31),
}
OPTIONS: dict[str, list[str]] = {
    "default": [],
    "rule": ["--rule", "source-acc"],
    "pure": ["--rule", "pure-nll"],
    "wide": ["--delta-pp", "1"],
    "last": ["--keep-last", "3"],
    "every": ["--keep-every", "1000"],
}


def answers(side: Side) -> Iterator[tuple[str, object]]:
    layouts = {"transformers": transformers, "lightning": lightning, "keras": keras}
    for trainer, lay_out in layouts.items():
        for name, options in OPTIONS.items():
            folder = Path("prune") / trainer / name
            lay_out(folder)
            before = files(folder)
            dry = side.run("prune", folder, "--json", *options)
            untouched = files(folder) == before
            applied = side.run("prune", folder, "--json", "--apply", *options)
            said = {"dry": dry, "untouched": untouched, "applied": applied}
            yield f"{trainer}-{name}", {**said, "left": files(folder)}


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def transformers(folder: Path) -> None:
    history: list[dict[str, float]] = []
    for step, (accuracy, loss) in SCORES.items():
        row = {"step": step, "epoch": step / 500, "eval_accuracy": accuracy, "eval_loss": loss}
        history.append(row)
        checkpoint = folder / f"checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "model.safetensors").write_bytes(b"w" * 1000)
        state = {"log_history": history, "global_step": step}
        (checkpoint / "trainer_state.json").write_text(json.dumps(state))
    (folder / "notes.txt").write_text("mine")


def lightning(folder: Path) -> None:
    run = folder / "lightning_logs" / "version_0"
    (run / "checkpoints").mkdir(parents=True)
    rows = ["epoch,step,val_acc,val_loss"]
    for epoch, (step, (accuracy, loss)) in enumerate(SCORES.items()):
        rows.append(f"{epoch},{step - 1},{accuracy},{loss}")
        (run / "checkpoints" / f"epoch={epoch}-step={step}.ckpt").write_bytes(b"w")
    (run / "metrics.csv").write_text("\n".join(rows) + "\n")


def keras(folder: Path) -> None:
    folder.mkdir(parents=True)
    rows = ["epoch,accuracy,loss,val_accuracy,val_loss"]
    for epoch, (accuracy, loss) in enumerate(SCORES.values()):
        rows.append(f"{epoch},0.9,0.1,{accuracy},{loss}")
        (folder / f"epoch-{epoch + 1:04d}.keras").write_bytes(b"w")
    (folder / "training.csv").write_text("\n".join(rows) + "\n")
