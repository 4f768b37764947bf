"""Write docs/real-logs.md: what checkwise makes of 154 logs by other people.

python -m docs.build.real_logs
"""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import checkwise as cw

PAGE = Path(__file__).parents[1] / "real-logs.md"
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
    "train": "only training was logged",
}
INTRODUCTION = """\
# What checkwise makes of real logs

These {count} logs were written by other people's trainings and lie in public repositories. Each was
given to `checkwise select` as it is, without any option.

"""
CHECKED = """
A second reading, which shares no code with checkwise, has to give the same steps, accuracies,
losses and choice for every log, digit by digit (`tests/readers/logs/independent.py`). A loss is
read as a cross-entropy; no log says whether it is one.
"""
READ_HEAD = """
| repository | log | read as | evaluations | chosen step |
|---|---|---|---:|---|
"""
REFUSED_HEAD = """
| repository | log | refused with |
|---|---|---|
"""


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


def outcomes() -> list[Outcome]:
    """Every log of the collection, read at the path that it has in its repository."""
    with (COLLECTION / "index.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", cw.CheckwiseWarning)
        return [_outcome(row, Path(folder) / str(number)) for number, row in enumerate(rows)]


def _outcome(row: Mapping[str, str], folder: Path) -> Outcome:
    source, place = COLLECTION / row["file"], folder / row["path"]
    place.parent.mkdir(parents=True)
    if source.is_dir():
        shutil.copytree(source / place.name, place)
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


def page(lines: list[Outcome]) -> str:
    """The whole page: counts, then a table for each kind."""
    if unknown := sorted({line.kind for line in lines} - set(KINDS)):
        raise SystemExit(f"Expected logs of the kinds in KINDS, but got {', '.join(unknown)}.")
    text = INTRODUCTION.format(count=len(lines)) + _counts(lines) + CHECKED
    for kind, title in KINDS.items():
        of_kind = [line for line in lines if line.kind == kind]
        read = [line for line in of_kind if not line.reason]
        refused = [line for line in of_kind if line.reason]
        text += f"\n## {title}\n\n{len(refused)} refused, {len(read)} read.\n"
        if read:
            text += READ_HEAD + "".join(map(_read_row, read))
        if refused:
            text += REFUSED_HEAD + "".join(map(_refused_row, refused))
    return text


def _read_row(line: Outcome) -> str:
    return (
        f"| {line.repository} | `{line.path}` | {_cell(line.mapping)} | {line.evaluations} | "
        f"{line.answer} |\n"
    )


def _refused_row(line: Outcome) -> str:
    return f"| {line.repository} | `{line.path}` | {_cell(line.answer)} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _counts(lines: list[Outcome]) -> str:
    refused = Counter(line.reason for line in lines if line.reason)
    read = [line for line in lines if not line.reason]
    rules = Counter(line.answer.partition(" by ")[2] for line in read)
    text = f"{refused.total()} of the {len(lines)} are refused, each with the reason:\n\n"
    text += "".join(f"- {count}: {reason}\n" for reason, count in refused.most_common())
    few = sum(line.evaluations < 3 for line in read)
    text += f"\n{len(read)} are read, {few} of them with fewer than three evaluations. "
    text += "The rule follows what is there: "
    return text + ", ".join(f"`{rule}` in {count}" for rule, count in rules.most_common()) + ".\n"


def main() -> None:
    if not COLLECTION.is_dir():
        print(f"{PAGE.name} stays as it is: the collection of logs is not in {COLLECTION}")
        return
    PAGE.write_text(page(outcomes()))


if __name__ == "__main__":
    main()
