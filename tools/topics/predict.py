"""Predict: checkpoints evaluated with a user's function, and what is chosen of the outputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from topics import small

if TYPE_CHECKING:
    from ask import Side


def answers(side: Side) -> Iterator[tuple[str, object]]:
    weights = small.checkpoints(Path("predict/weights"))
    out = Path("predict/predictions")
    function = "evaluate.py:outputs"
    words: list[object] = [
        "predict",
        weights,
        "--function",
        function,
        "--domains",
        ",".join(small.DOMAINS),
    ]
    yield "made", side.run(*words, "--out", out, "--json")
    yield "again", side.run(*words, "--out", out, "--json")
    yield "select", side.run("select", out, "--json")
    yield "sure", side.run("select", out, "--json", "--sure")
    yield "calibrate", side.run("calibrate", out, "--json")
    words[words.index(function)] = "evaluate.py:nothing"
    yield "no-function", side.run(*words, "--out", f"{out}-2", "--json")
    for file in sorted(out.glob("step-*/*.npz")):
        with np.load(file) as saved:
            sums = {name: float(saved[name].astype(float).sum()) for name in sorted(saved.files)}
        yield f"outputs/{file.parent.name}/{file.stem}", sums
