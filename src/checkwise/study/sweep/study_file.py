"""A study file: its keys, and the study that their values make."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Final, get_args

from checkwise.errors import InputError
from checkwise.store import SPLIT_BY
from checkwise.study.data import dataset_names
from checkwise.study.sweep.executors import EXECUTORS
from checkwise.study.sweep.launching import ExecutorSettings, bytes_of, minutes_of
from checkwise.study.sweep.study import OWN, DataSpec, Fixed, Role, Study
from checkwise.study.sweep.toml_table import (
    FLAG,
    LONGEST_NAME,
    NAME,
    OPTIONAL,
    SEEDS,
    TEXT,
    Kind,
    StudyKey,
    TomlTable,
    UnfitError,
    a_kind,
    names,
    number,
    one_of,
    read_toml,
    whole,
)
from checkwise.study.train import (
    AVERAGES,
    KEEPS,
    LOGITS,
    NETWORK_KINDS,
    SMA_START,
    TUNES,
    Hyperparameter,
    LogUniform,
    NetworkConfig,
    RunSettings,
    algorithm_names,
    known_names,
)
from checkwise.study.train import table as hparam_rows
from checkwise.words import is_plain, listed

ROLE: Final = one_of(lambda: get_args(Role))


def _held_out(value: Any) -> tuple[tuple[str, ...], ...] | None:
    if value == "each":
        return None
    entries = value if isinstance(value, list) else []
    sets = [[entry] if isinstance(entry, str) else entry for entry in entries]
    fits = all(
        isinstance(names, list)
        and names
        and all(isinstance(name, str) and is_plain(name) for name in names)
        for names in sets
    )
    if not fits or not sets or len({frozenset(names) for names in sets}) != len(sets):
        raise UnfitError(value)
    return tuple(tuple(names) for names in sets)


def _are_names(value: Any) -> bool:
    fit = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return fit and 0 < len(value) == len(set(value))


TOP: Final = (
    StudyKey("name", NAME, "what the study is called"),
    StudyKey("role", ROLE, "results of the two roles are never pooled unless asked for"),
    StudyKey("description", OPTIONAL, "for readers; checkwise ignores it", None),
)
DATA: Final = (
    StudyKey(
        "dataset",
        one_of(dataset_names),
        "which data; `ImageFolder` (domain/class/file) and `Features` (.npz) open your own",
    ),
    StudyKey(
        "root",
        OPTIONAL,
        "where the data are, from the file's folder; `--data NAME=PATH` overrides it",
        None,
    ),
    StudyKey(
        "name",
        NAME,
        "the name in runs and results",
        None,
        "`dataset`; for your own data the name of `root`; required if that is missing",
    ),
    StudyKey("role", ROLE, "role of this data set", None, "the study's"),
    StudyKey(
        "held_out",
        Kind(lambda: 'a list of different domain names, of lists of them, or "each"', _held_out),
        'one run per entry, which does not train on it; "each" means every domain in turn',
    ),
    StudyKey("size", whole(), "width and height of decoded images in pixels", None, "224"),
    StudyKey("deduplicate", FLAG, "leave out duplicate images, within and across domains", False),
    StudyKey(
        "domain_by",
        OPTIONAL,
        "the column of a feature file that says which domain an example is of",
        None,
        "`domain`",
    ),
    StudyKey(
        "groups",
        OPTIONAL,
        "the column of a feature file that says which examples belong together: a site, a "
        "patient, a device",
        None,
    ),
    StudyKey(
        "places",
        whole(),
        "deals the `groups` of every domain into so many places, to be held out instead of whole "
        "domains; the other groups of the domain are trained on",
        None,
    ),
    StudyKey(
        "classes",
        a_kind("a list of different class names", _are_names, tuple),
        "the only classes that stay",
        (),
        "all",
    ),
    StudyKey(
        "class_subsets",
        whole(),
        "deals the classes into so many disjoint subsets (every n-th class), each a data set of "
        "its own: NAME-1, NAME-2 …",
        None,
    ),
)
NETWORK: Final = (
    StudyKey(
        "kind",
        one_of(lambda: NETWORK_KINDS),
        "a small CNN for digits, a head on features, or a pretrained image network",
    ),
    StudyKey(
        "hidden",
        whole(),
        "hidden units of the head, for `mlp` and `backbone`",
        NetworkConfig.hidden,
    ),
    StudyKey(
        "backbone",
        TEXT,
        "`lite0`, `resnet50`, or `timm:<model>` for any model of timm",
        NetworkConfig.backbone,
    ),
    StudyKey(
        "tune", one_of(lambda: TUNES), "the part of the backbone that learns", NetworkConfig.tune
    ),
    StudyKey("freeze_bn", FLAG, "BatchNorm keeps its pretrained statistics", False),
    StudyKey(
        "bn_momentum",
        number(0, 1),
        "weight of a new minibatch in the statistics of live BatchNorm",
        None,
        "that of the pretrained network",
    ),
    StudyKey(
        "channels_last",
        FLAG,
        "convolutions with the channels last in memory: faster, other last bits",
        False,
    ),
)
_NETWORK_TAKES: Final = {"digits": NETWORK[:1], "linear": NETWORK[:1], "mlp": NETWORK[:2]}
RUNS: Final = (
    StudyKey(
        "algorithms",
        names(algorithm_names, others="add your own with --plugin FILE.py,"),
        "one run for each",
    ),
    StudyKey(
        "draws",
        whole(),
        "instead of seeds: so many runs of each algorithm and held-out set, each with a split, "
        "initial weights and random hyperparameters that no other run has",
        None,
    ),
    StudyKey(
        "hparams_seeds",
        SEEDS,
        "0 means the default hyperparameters; any other seed draws them at random",
        (0,),
    ),
    StudyKey(
        "trial_seeds", SEEDS, "seeds of the splits, the initial weights and the sampling", (0,)
    ),
)
TRAINING: Final = (
    StudyKey(
        "averages",
        names(lambda: AVERAGES, empty=True),
        "averages of the weights, taken during training",
        (),
    ),
    StudyKey("steps", whole(), "updates per run"),
    StudyKey(
        "record_every",
        whole(),
        "updates between checkpoints; the first and the last update have one too",
    ),
    StudyKey(
        "holdout", number(0, 1), "share of every domain used for validation", RunSettings.holdout
    ),
    StudyKey(
        "split_by",
        one_of(lambda: SPLIT_BY),
        "what validation holds out: examples, whole `groups` of [data], or both, as two "
        "validation sets along one training",
        RunSettings.split_by,
    ),
    StudyKey(
        "augment",
        FLAG,
        "crop, flip and recolour training images at random",
        None,
        'true with `tune = "all"`, else false',
    ),
    StudyKey(
        "shared_init",
        FLAG,
        "runs that differ only in their seeds start from the same weights",
        False,
    ),
)
RECORDS: Final = (
    StudyKey("bins", whole(2), "bins of the calibration errors", RunSettings.bins),
    StudyKey("bandwidth", number(0, 10), "width of the soft bins", RunSettings.bandwidth),
    StudyKey(
        "keep", one_of(lambda: KEEPS), "checkpoints whose weights stay on disk", RunSettings.keep
    ),
    StudyKey(
        "keep_delta_pp",
        number(0, 100, ends=True),
        "`feasible` keeps weights within this many points of the best accuracy",
        float(RunSettings.keep_delta_pp),
    ),
    StudyKey(
        "logits",
        one_of(lambda: LOGITS),
        "save the logits of the validation sets, or also of the held-out domains; `outcomes`: "
        "only which examples were correct, and their NLL; `source-half`: both, with logits in "
        "half precision",
        RunSettings.logits,
    ),
    StudyKey(
        "source_in",
        FLAG,
        "also evaluate the training part of the source domains",
        RunSettings.source_in,
    ),
)
EXECUTOR: Final = (
    StudyKey(
        "kind",
        one_of(lambda: list(EXECUTORS)),
        "where workers run; this table is no part of the study and may change",
        ExecutorSettings.kind,
    ),
    StudyKey(
        "workers",
        whole(),
        "how many workers are started",
        None,
        "one for every core; required for `slurm`",
    ),
    StudyKey("partition", OPTIONAL, "the partition, for `slurm`", None),
    StudyKey(
        "time",
        OPTIONAL,
        "time limit of a job, for `slurm`; a worker goes on in its next job",
        None,
        '"1:00:00"',
    ),
    StudyKey("memory", OPTIONAL, "memory of a worker, such as `4G`", None),
    StudyKey("cpus", whole(), "CPUs of a worker", None, "1"),
    StudyKey("gpus", whole(0), "GPUs of a worker", None, "0"),
    StudyKey(
        "address", OPTIONAL, "of a running cluster, for `ray`", None, "a cluster on this machine"
    ),
)
STUDY_TABLES: Final = {
    "": TOP,
    "data": DATA,
    "network": NETWORK,
    "runs": RUNS,
    "training": TRAINING,
    "records": RECORDS,
    "executor": EXECUTOR,
}


def shipped_studies() -> dict[str, Path]:
    """Studies that come with the package, by name."""
    folder = Path(str(resources.files("checkwise") / "study" / "files"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_study(source: Path | str) -> Study:
    """Read a study file, or a shipped study by its name."""
    path, values = _read(source)
    return parse_study(values, file=str(path), folder=path.parent)


def read_executor(source: Path | str) -> ExecutorSettings:
    """The ``[executor]`` table of a study file, which is no part of the study."""
    path, values = _read(source)
    return _executor(values, str(path))


def _read(source: Path | str) -> tuple[Path, dict[str, Any]]:
    path = Path(source)
    if path.is_dir() or not path.exists():
        known = shipped_studies()
        if str(source) not in known:
            nearest = difflib.get_close_matches(str(source)[:LONGEST_NAME], list(known), n=1)
            meant = f": did you mean {nearest[0]!r}?" if nearest else "."
            what = f"{str(source)!r} is a folder"
            if not path.is_dir():
                what = f"there is no file {str(source)!r}"
            raise InputError(
                "Expected a study file (.toml) or the name of a shipped study, but "
                f"{what}{meant} Shipped are {listed(list(known))}.",
                code="unknown",
            )
        path = known[str(source)]
    return path, read_toml(path)


def parse_study(values: Mapping[str, Any], *, file: str, folder: Path) -> Study:
    """Check the values of a study file; relative paths in it start from ``folder``."""
    top = TomlTable(values, "", file).read(TOP, beside=(*STUDY_TABLES, "hparams"))
    data = _data_sets(values.get("data"), top["role"], folder, file)
    network = _network(TomlTable(values.get("network", {}), "network", file))
    _executor(values, file)
    runs = TomlTable(values.get("runs", {}), "runs", file)
    of_runs = runs.read(RUNS)
    training = TomlTable(values.get("training", {}), "training", file).read(TRAINING)
    if training["augment"] is None:
        training["augment"] = network.kind == "backbone" and network.tune == "all"
    records = TomlTable(values.get("records", {}), "records", file).read(RECORDS)
    records["keep_delta_pp"] = str(records["keep_delta_pp"])
    draws = of_runs["draws"]
    if draws:
        for key in ("hparams_seeds", "trial_seeds"):
            if key in runs.values:
                raise runs.refuse(key, "left out beside `draws`", runs.values[key], "remove one")
        of_runs |= {"hparams_seeds": tuple(range(1, draws + 1)), "trial_seeds": ()}
    listed_for = 0 if draws else len(of_runs["hparams_seeds"])
    hparams = TomlTable(values.get("hparams", {}), "hparams", file).read(_hparams(listed_for))
    study = Study(
        name=top["name"],
        data=data,
        network=network,
        hparams={name: value for name, value in hparams.items() if value is not None},
        **of_runs,
        **training,
        **records,
    )
    _check_together(study, file)
    return study


def _executor(values: Mapping[str, Any], file: str) -> ExecutorSettings:
    settings = ExecutorSettings(
        **TomlTable(values.get("executor", {}), "executor", file).read(EXECUTOR)
    )
    if settings.time is not None:
        minutes_of(settings.time)
    if settings.memory is not None:
        bytes_of(settings.memory)
    return settings


def _data_sets(content: Any, role: Role, folder: Path, file: str) -> tuple[DataSpec, ...]:
    tables = content if isinstance(content, list) else [content]
    if content is None or not tables:
        raise InputError(
            f"Expected a table [data] with `dataset` and `held_out`, but got none in {file}: "
            "add it.",
            code="missing",
        )
    specs = [
        spec
        for values in tables
        for spec in _data_set(TomlTable(values, "data", file), role, folder)
    ]
    called = [spec.name for spec in specs]
    if len(set(called)) != len(called):
        raise InputError(
            f"Expected data sets with different names, but got {', '.join(called)} in {file}: "
            "give each [[data]] a `name`.",
            code="ambiguous",
        )
    return tuple(specs)


def _data_set(table: TomlTable, role: Role, folder: Path) -> list[DataSpec]:
    values = table.read(DATA)
    place = None if values["root"] is None else folder / Path(values["root"]).expanduser()
    name = values["name"] or (values["dataset"] if values["dataset"] not in OWN else None)
    if name is None and place is not None:  # two data sets of one's own are not both `ImageFolder`
        name = place.resolve().stem if place.suffix == ".npz" else place.resolve().name
    if not name:
        raise table.refuse("name", NAME.wanted(), None)
    for key in ("domain_by", "groups", "places"):
        if values[key] is not None and values["dataset"] != "Features":
            wanted = "left out, for it is about feature files"
            raise table.refuse(key, wanted, values[key], "remove it")
    if values["places"] is not None and values["groups"] is None:
        wanted = "left out without `groups`"
        raise table.refuse("places", wanted, values["places"], "name the column of the groups")
    subsets = values.pop("class_subsets")
    if subsets and values["classes"]:
        raise table.refuse("class_subsets", "left out beside `classes`", subsets, "remove one")
    changes = {"name": name, "role": values["role"] or role, "root": place and str(place)}
    spec = DataSpec(**{**values, **changes})
    if not subsets:
        return [spec]
    width = len(str(subsets))
    return [
        replace(spec, name=f"{name}-{i:0{width}d}", class_subset=(i, subsets), part_of=name)
        for i in range(1, subsets + 1)
    ]


def _network(table: TomlTable) -> NetworkConfig:
    network = NetworkConfig(
        **table.read(_NETWORK_TAKES.get(str(table.values.get("kind")), NETWORK))
    )
    if network.freeze_bn and network.bn_momentum:
        wanted = "absent beside `freeze_bn`, which fixes the statistics"
        raise table.refuse("bn_momentum", wanted, network.bn_momentum, "remove one of the two")
    return network


def _hparams(seeds: int) -> list[StudyKey]:
    """The hyperparameters that a study may set; a list has one for each of its ``seeds``."""
    rows = {row.name: row for row in hparam_rows()}
    each = f", a list of one for each of the {seeds} hyperparameter seeds" if seeds else ""

    def key(name: str) -> StudyKey:
        row = rows[name]
        wanted = f"{row.wanted}{each}, or a range {{low = …, high = …}} with low below high"
        return StudyKey(name, Kind(lambda: wanted, partial(_fixed, row, seeds)), "", None)

    return [key(name) for name in known_names()]


def _fixed(row: Hyperparameter, seeds: int, value: Any) -> Fixed:
    try:
        if isinstance(value, list) and len(value) == seeds > 0:
            return tuple(row.checked(entry) for entry in value)
        if not isinstance(value, Mapping) or set(value) != {"low", "high"}:
            return row.checked(value)
        low, high = row.checked(value["low"]), row.checked(value["high"])
    except InputError:
        raise UnfitError(value) from None
    if not 0 < low < high:
        raise UnfitError(value)
    return LogUniform(low, high)


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
