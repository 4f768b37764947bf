"""Deploy: what the folder says, its temperature, and the probabilities of the loaded model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from topics import small

if TYPE_CHECKING:
    from ask import Side

# Digests of files whose sentences may change, and versions of packages.
LEFT_OUT = ("files", "sha256", "versions", "path")
OPTIONS: dict[str, list[str]] = {
    "default": [],
    "not-calibrated": ["--calibrator", "none"],
    "ts": ["--calibrator", "ts"],
    "source-acc": ["--rule", "source-acc"],
    "ensemble": ["--average", "probabilities", "--members", "3"],
    "weights-mean": ["--average", "weights"],
}


def answers(side: Side) -> Iterator[tuple[str, object]]:
    weights = small.checkpoints(Path("deploy/weights"))
    predictions = Path("deploy/predictions")
    function = "evaluate.py:outputs"
    words = ["--function", function, "--domains", ",".join(small.DOMAINS), "--out", predictions]
    side.run("predict", weights, *words, "--json")
    for name, options in OPTIONS.items():
        yield name, deployed(side, predictions, Path("deploy") / name, options)
    yield "again", side.run("deploy", predictions, "--out", "deploy/default", "--json")
    forced = side.run("deploy", predictions, "--out", "deploy/default", "--force", "--json")
    yield "forced", without(forced)
    runs = sorted(Path("trained/runs").iterdir()) if Path("trained/runs").exists() else []
    for run in runs[:2]:
        yield run.name, deployed(side, run, Path("deploy") / run.name, [])


def deployed(side: Side, run: Path, out: Path, options: list[str]) -> dict[str, object]:
    said = side.run("deploy", run, "--out", out, "--json", *options)
    if not out.exists():
        return {"said": said}
    answer = {
        "said": without(said),
        "files": sorted(str(f.relative_to(out)) for f in out.rglob("*") if f.is_file()),
        "info": without(side.read(out / "deployed.json")),
        "calibration": side.read(out / "calibration.json"),
    }
    try:
        return {**answer, **loaded(side.public("checkwise.deployed:load")(out), run)}
    except Exception as error:  # the other models are asked for all the same
        return {**answer, "loaded": type(error).__name__}


def loaded(bundle: Any, run: Path) -> dict[str, object]:
    states = bundle.weights if isinstance(bundle.weights, list) else [bundle.weights]
    sums = [{k: float(s[k].double().sum()) for k in sorted(s)} for s in states]
    if run.name != "predictions":
        return {"sums": sums}
    with torch.no_grad():
        model = bundle.module(small.network())
        probabilities = model.probabilities(small.examples("photo")[0][:5])
    return {"sums": sums, "probabilities": probabilities.tolist()}


def without(said: Any) -> Any:
    return {key: value for key, value in said.items() if key not in LEFT_OUT}
