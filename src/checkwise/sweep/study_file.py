"""Study files: TOML, checked when read. Errors name the key and the values it may have."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, cast

from checkwise.errors import InputError
from checkwise.store.validation import SPLIT_BY, SplitBy
from checkwise.sweep.data_table import ROLES, parse_data
from checkwise.sweep.executors import ExecutorSettings
from checkwise.sweep.executors.table import parse_executor
from checkwise.sweep.hparams_table import parse_hparams
from checkwise.sweep.network_table import parse_network
from checkwise.sweep.study import Role, Study
from checkwise.sweep.toml_table import LONGEST_NAME, Key, TomlTable, read_toml
from checkwise.text import listed
from checkwise.train.config import (
    AVERAGES,
    LOGITS,
    SMA_START,
    Average,
    Logits,
    NetworkConfig,
    RunSettings,
)
from checkwise.train.kept_weights import KEEPS, Keep


def shipped() -> dict[str, Path]:
    """Studies that come with the package, by name."""
    folder = Path(str(resources.files("checkwise") / "studies"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_study(source: Path | str) -> Study:
    """Read a study file, or a shipped study by its name."""
    path, values = _read(source)
    return parse_study(values, file=str(path), folder=path.parent)


def read_executor(source: Path | str) -> ExecutorSettings:
    """The ``[executor]`` table of a study file, which is no part of the study."""
    path, values = _read(source)
    return parse_executor(TomlTable(values.get("executor", {}), "executor", str(path)))


def _read(source: Path | str) -> tuple[Path, dict[str, Any]]:
    path = Path(source)
    if path.is_dir() or not path.exists():
        known = shipped()
        if str(source) not in known:
            nearest = difflib.get_close_matches(str(source)[:LONGEST_NAME], list(known), n=1)
            meant = f": did you mean {nearest[0]!r}?" if nearest else "."
            what = (
                f"{str(source)!r} is a folder"
                if path.is_dir()
                else f"there is no file {str(source)!r}"
            )
            raise InputError(
                "Expected a study file (.toml) or the name of a shipped study, but "
                f"{what}{meant} Shipped are {listed(list(known))}.",
                code="unknown",
            )
        path = known[str(source)]
    return path, read_toml(path)


def parse_study(
    values: Mapping[str, Any], *, file: str, folder: Path, keys: list[Key] | None = None
) -> Study:
    """Check the values of a study file; relative paths in it start from ``folder``.

    ``keys`` collects every key that the file may have, for the reference page.
    """
    from checkwise.train.algorithms import algorithm_names

    def table(name: str, content: Any) -> TomlTable:
        return TomlTable(content, name, file, keys)

    top = table("", values)
    name = top.name("name", means="what the study is called")
    role = cast(
        Role,
        top.text(
            "role", among=ROLES, means="results of the two roles are never pooled unless asked for"
        ),
    )
    top.optional_text("description", means="for readers; checkwise ignores it")
    data = parse_data(top.raw("data"), role, folder, table, file)
    network = parse_network(table("network", top.raw("network", {})))
    runs = table("runs", top.raw("runs", {}))
    training = table("training", top.raw("training", {}))
    records = table("records", top.raw("records", {}))
    hparams = top.raw("hparams", {})
    parse_executor(table("executor", top.raw("executor", {})))
    top.finish()
    names = runs.names(
        "algorithms",
        among=algorithm_names(),
        means="one run for each",
        others="add your own with --plugin FILE.py,",
    )
    study = Study(
        name=name,
        data=data,
        network=network,
        algorithms=names,
        **_seeds(runs, hparams, file),
        **_schedule(training, network),
        **_records(records),
    )
    for section in (runs, training, records):
        section.finish()
    _check_together(study, file)
    return study


def _seeds(table: TomlTable, hparams: Any, file: str) -> dict[str, Any]:
    """The seeds of the runs, or how many draws of its own every cell has."""
    draws = table.whole(
        "draws",
        0,
        least=1,
        shown="none",
        means="instead of seeds: so many runs of each algorithm and held-out set, each with a "
        "split, initial weights and random hyperparameters that no other run has",
    )
    seeds = table.seeds(
        "hparams_seeds",
        (0,),
        means="0 means the default hyperparameters; any other seed draws them at random",
    )
    trials = table.seeds(
        "trial_seeds", (0,), means="seeds of the splits, the initial weights and the sampling"
    )
    if draws:
        for key in ("hparams_seeds", "trial_seeds"):
            if table.has(key):
                raise table.refuse(key, "left out beside `draws`", table.raw(key), "remove one")
        seeds, trials = tuple(range(1, draws + 1)), ()
    return {
        "hparams_seeds": seeds,
        "trial_seeds": trials,
        "draws": draws or None,
        "hparams": parse_hparams(hparams, 0 if draws else len(seeds), file),
    }


def _schedule(table: TomlTable, network: NetworkConfig) -> dict[str, Any]:
    whole = network.kind == "backbone" and network.tune == "all"
    averages = table.names(
        "averages", [], among=AVERAGES, means="averages of the weights, taken during training"
    )
    return {
        "steps": table.whole("steps", least=1, means="updates per run"),
        "record_every": table.whole(
            "record_every",
            least=1,
            means="updates between checkpoints; the first and the last update have one too",
        ),
        "holdout": table.number(
            "holdout",
            RunSettings.holdout,
            above=0,
            below=1,
            means="share of every domain used for validation",
        ),
        "split_by": cast(
            SplitBy,
            table.text(
                "split_by",
                RunSettings.split_by,
                among=SPLIT_BY,
                means="what validation holds out: examples, whole `groups` of [data], or both, "
                "as two validation sets along one training",
            ),
        ),
        "augment": table.flag(
            "augment",
            whole,
            shown='true with `tune = "all"`, else false',
            means="crop, flip and recolour training images at random",
        ),
        "averages": cast(tuple[Average, ...], averages),
        "shared_init": table.flag(
            "shared_init",
            False,
            means="runs that differ only in their seeds start from the same weights",
        ),
    }


def _records(table: TomlTable) -> dict[str, Any]:
    return {
        "bins": table.whole(
            "bins", RunSettings.bins, least=2, means="bins of the calibration errors"
        ),
        "bandwidth": table.number(
            "bandwidth", RunSettings.bandwidth, above=0, below=10, means="width of the soft bins"
        ),
        "keep": cast(
            Keep,
            table.text(
                "keep",
                RunSettings.keep,
                among=KEEPS,
                means="checkpoints whose weights stay on disk",
            ),
        ),
        "keep_delta_pp": str(
            table.number(
                "keep_delta_pp",
                float(RunSettings.keep_delta_pp),
                above=0,
                below=100,
                ends=True,
                means="`feasible` keeps weights within this many points of the best accuracy",
            )
        ),
        "logits": cast(
            Logits,
            table.text(
                "logits",
                RunSettings.logits,
                among=LOGITS,
                means="save the logits of the validation sets, or also of the held-out domains; "
                "`outcomes`: only which examples were correct, and their NLL; `source-half`: both, "
                "with logits in half precision",
            ),
        ),
        "source_in": table.flag(
            "source_in",
            RunSettings.source_in,
            means="also evaluate the training part of the source domains",
        ),
    }


def _check_together(study: Study, file: str) -> None:
    if study.network.kind == "linear" and "CORAL" in study.algorithms:
        raise InputError(
            "Expected algorithms that a linear head can train, but got 'CORAL' (on fixed features "
            f'it equals ERM) in {file}: use kind = "mlp", or leave CORAL out.',
            code="unsupported",
        )
    if "sma" in study.averages and study.steps <= SMA_START:
        raise InputError(
            f"Expected more than {SMA_START} updates for the average 'sma', which starts at step "
            f"{SMA_START}, but got `steps` = {study.steps} in {file}: raise `steps`, or leave out "
            "'sma'.",
            code="unsupported",
        )
    ungrouped = [spec.name for spec in study.data if spec.groups is None]
    if study.split_by != "examples" and ungrouped:
        raise InputError(
            f"Expected `groups` in [data] for split_by = {study.split_by!r}, but {ungrouped[0]} "
            f"has none in {file}: name the column of the groups.",
            code="missing",
        )
    if study.record_every > study.steps:
        raise InputError(
            f"Expected `record_every` of at most `steps` ({study.steps}), but got "
            f"{study.record_every} in {file}: lower it."
        )
