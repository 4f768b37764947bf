"""Write docs/real-logs.csv and its part of docs/logs.md: what checkwise makes of strangers' logs.

python -m docs.build.real_logs
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import checkwise as cw
from studies.page import DOCS, fill

PAGE, PART = DOCS / "logs.md", "real logs"
TABLE = DOCS / "real-logs.csv"
SHARED = Path(os.environ.get("CHECKWISE_SHARED", Path(__file__).parents[3] / "shared"))
COLLECTION = SHARED / "real-logs"
KINDS = {
    "hf-trainer_state": "transformers: `trainer_state.json`",
    "keras-csvlogger": "Keras: CSVLogger",
    "lightning-metrics_csv": "Lightning: `metrics.csv`",
    "other-csv": "other CSV",
    "tensorboard": "TensorBoard: event files",
    "mlflow": "MLflow: the file store",
    "domainbed-stdout": "DomainBed: a console's output",
    "results.csv": "Ultralytics and YOLOv5: `results.csv`",
    "catboost_info": "CatBoost: `catboost_info`",
    "training_history.json": "lists as JSON",
    "scalars.json": "mmengine: `scalars.json`",
    "None.log.json": "mmcv 0.x: `.log.json`",
    "metrics.json": "Detectron2: `metrics.json`",
    "metrics_epoch_0.json": "AllenNLP: `metrics_epoch_N.json`",
    "dvclive": "DVCLive",
    "loss.tsv": "Flair: `loss.tsv`",
}
PARTS_OF_KINDS = ("-short", "-lossonly", "-other")
# How messages say why a log is refused; the first that fits.
REASONS = {
    "test columns are not read": "only a test set was logged",
    "outputs with one each": "the model has several outputs, and nothing says which one counts",
    "single batches": "the values are of single batches, not of the validation set",
    "on the console": "it is a console's output, in which the lines of several runs may be mixed",
    "no columns of metrics": "no metric was logged",
    "which may be of training": "nothing says whether a column is of validation",
    "grid search": "it is of a grid search, not of a training",
    "epochs that count on": "every row is of the same epoch",
    "train": "only training was logged",
}
# Folders that are one log.
FOLDERS = ("catboost_info", "dvclive")
INTRODUCTION = (
    "{count} logs of other people's trainings in public repositories were given to `checkwise "
    "select` as they are, without any option ([each by itself](real-logs.csv)). "
)
CHECKED = (
    "\n\nA second reading, which shares no code with checkwise, gives the same steps, accuracies, "
    "losses and choice for every log (`tests/readers/logs/independent.py`)."
)
HEAD = ("kind", "repository", "log", "read as", "evaluations", "chosen, or refused with")


@dataclass(frozen=True)
class Outcome:
    """One line of the table: what was read, or why nothing was."""

    kind: str
    repository: str
    path: str
    mapping: str
    evaluations: int
    answer: str
    reason: str


def logs() -> list[dict[str, str]]:
    """The collection's own list, and what lies in `more`: a folder for every repository."""
    with (COLLECTION / "index.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for place in sorted(COLLECTION.glob("more/*")):
        files = sorted(path for path in place.rglob("*") if path.is_file())
        parts = [path.relative_to(place).parts for path in files]
        known = {next((one for one in part if one in FOLDERS), "/".join(part)) for part in parts}
        one = {name for name in known if not name.startswith("metrics_epoch_")}
        for name in sorted(one or {"metrics_epoch_0.json"}):
            kind = Path(name).name if Path(name).name in KINDS else "other-csv"
            source = place if name in FOLDERS else place / name
            repository = place.name.replace("+", "/", 1)
            row = {"kind": kind, "repo": repository, "path": name}
            rows.append({**row, "file": str(source.relative_to(COLLECTION))})
    return rows


def outcomes() -> list[Outcome]:
    """Every log of the collection, read at the path that it has in its repository."""
    rows = logs()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", cw.CheckwiseWarning)
        return [_outcome(row, Path(folder) / str(number)) for number, row in enumerate(rows)]


def _outcome(row: Mapping[str, str], folder: Path) -> Outcome:
    source, place = COLLECTION / row["file"], folder / row["path"]
    place.parent.mkdir(parents=True)
    if source.is_dir():
        shutil.copytree(source / place.name, place)
    elif place.name.startswith("metrics_epoch_"):
        shutil.copytree(source.parent, place.parent, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, place)
    kind = row["kind"]
    for part in PARTS_OF_KINDS:
        kind = kind.removesuffix(part)
    try:
        (run,) = cw.load_runs(place).values()
        choice = cw.select(run)
    except cw.InputError as error:
        said = str(error).replace(str(place), "the log")
        return Outcome(kind, row["repo"], row["path"], "", 0, said, reason_of(said))
    mapping = ", ".join(f"{_title(metric)} ← `{c}`" for metric, c in run.columns.items())
    if any("in percent" in note for note in run.notes):
        mapping += " (percent)"
    answer = f"{choice.step}{' (guard)' if choice.guard_acted else ''} by {choice.rule}"
    return Outcome(kind, row["repo"], row["path"], mapping, len(run), answer, "")


def reason_of(said: str) -> str:
    """Why a log is refused, in a few words; a message that fits none of `REASONS` is a fault."""
    for part, words in REASONS.items():
        if part in said:
            return words
    raise SystemExit(f"Expected a refusal that REASONS has words for, but got: {said}")


def _title(metric: str) -> str:
    return metric.replace("nll", "NLL")


def table(lines: list[Outcome]) -> str:
    """Every log as CSV."""
    if unknown := sorted({line.kind for line in lines} - set(KINDS)):
        raise SystemExit(f"Expected logs of the kinds in KINDS, but got {', '.join(unknown)}.")
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEAD)
    for each in sorted(lines, key=lambda line: list(KINDS).index(line.kind)):
        row = (each.mapping, each.evaluations or "", each.answer)
        writer.writerow((KINDS[each.kind], each.repository, each.path, *row))
    return file.getvalue()


def summary(lines: list[Outcome]) -> str:
    """How many are read and by which rule, how many refused and why."""
    refused = Counter(line.reason for line in lines if line.reason)
    read = [line for line in lines if not line.reason]
    rules = Counter(line.answer.partition(" by ")[2] for line in read)
    by_rule = ", ".join(f"`{rule}` in {count}" for rule, count in rules.most_common())
    why = "; ".join(f"{count} because {reason}" for reason, count in refused.most_common())
    said = f"{len(read)} are read ({by_rule}), {refused.total()} refused: {why}."
    return f"{INTRODUCTION.format(count=len(lines))}{said}{CHECKED}"


def main() -> None:
    if not COLLECTION.is_dir():
        print(f"{TABLE.name} stays as it is: the collection of logs is not in {COLLECTION}")
        return
    lines = outcomes()
    TABLE.write_text(table(lines), encoding="utf-8")
    fill(PAGE, PART, summary(lines))


if __name__ == "__main__":
    main()
