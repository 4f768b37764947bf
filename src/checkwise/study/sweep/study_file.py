"""``[data]`` of a study file: which data, what is held out, which columns say what."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, Final, cast, get_args

from checkwise.errors import InputError
from checkwise.store import SPLIT_BY, SplitBy
from checkwise.study.sweep.executors import EXECUTORS
from checkwise.study.sweep.launching import ExecutorSettings, bytes_of, minutes_of
from checkwise.study.sweep.study import OWN, DataSpec, Fixed, Role, Study
from checkwise.study.sweep.toml_table import LONGEST_NAME, StudyKey, TomlTable, read_toml
from checkwise.study.train import (
    AVERAGES,
    KEEPS,
    LOGITS,
    NETWORK_KINDS,
    SMA_START,
    TUNES,
    Average,
    Hyperparameter,
    Keep,
    Logits,
    LogUniform,
    NetworkConfig,
    NetworkKind,
    RunSettings,
    Tune,
)
from checkwise.words import is_plain, listed

ROLES: Final[tuple[Role, ...]] = get_args(Role)


def parse_data(
    content: Any, role: Role, folder: Path, table: Callable[[str, Any], TomlTable], file: str
) -> tuple[DataSpec, ...]:
    """The data sets of a study; relative roots start from ``folder``."""
    tables = content if isinstance(content, list) else [content]
    if content is None or not tables:
        raise InputError(
            f"Expected a table [data] with `dataset` and `held_out`, but got none in {file}: "
            "add it.",
            code="missing",
        )
    specs = [spec for values in tables for spec in _data_set(table("data", values), role, folder)]
    names = [spec.name for spec in specs]
    if len(set(names)) != len(names):
        raise InputError(
            f"Expected data sets with different names, but got {', '.join(names)} in {file}: "
            "give each [[data]] a `name`.",
            code="ambiguous",
        )
    return tuple(specs)


def _data_set(table: TomlTable, role: Role, folder: Path) -> list[DataSpec]:
    from checkwise.study.data import dataset_names

    dataset = table.text(
        "dataset",
        among=dataset_names(),
        means="which data; `ImageFolder` (domain/class/file) and `Features` (.npz) open your own",
    )
    root = table.optional_text(
        "root", means="where the data are, from the file's folder; `--data NAME=PATH` overrides it"
    )
    place = None if root is None else folder / Path(root).expanduser()
    name = table.name(
        "name",
        _own_name(place) if dataset in OWN else dataset,
        shown="`dataset`; for your own data the name of `root`; required if that is missing",
        means="the name in runs and results",
    )
    spec = DataSpec(
        dataset=dataset,
        name=name,
        role=cast(
            Role,
            table.text(
                "role", role, among=ROLES, shown="the study's", means="role of this data set"
            ),
        ),
        held_out=_held_out(table),
        size=table.whole(
            "size", 0, shown="224", means="width and height of decoded images in pixels"
        )
        or None,
        deduplicate=table.flag(
            "deduplicate", False, means="leave out duplicate images, within and across domains"
        ),
        root=None if place is None else str(place),
        **_columns(table, dataset),
    )
    subsets = table.whole(
        "class_subsets",
        0,
        least=1,
        shown="none",
        means="deals the classes into so many disjoint subsets (every n-th class), each a data set "
        "of its own: NAME-1, NAME-2 …",
    )
    table.finish()
    if subsets and spec.classes:
        raise table.refuse("class_subsets", "left out beside `classes`", subsets, "remove one")
    return _class_subsets(spec, subsets) if subsets else [spec]


def _columns(table: TomlTable, dataset: str) -> dict[str, Any]:
    """Which columns of a feature file say what, and which of its classes stay."""
    columns: dict[str, Any] = {
        "domain_by": table.optional_text(
            "domain_by",
            shown="`domain`",
            means="the column of a feature file that says which domain an example is of",
        ),
        "groups": table.optional_text(
            "groups",
            means="the column of a feature file that says which examples belong together: a site, "
            "a patient, a device",
        ),
        "places": table.whole(
            "places",
            0,
            least=1,
            shown="none",
            means="deals the `groups` of every domain into so many places, to be held out instead "
            "of whole domains; the other groups of the domain are trained on",
        )
        or None,
    }
    for key, value in columns.items():
        if value is not None and dataset != "Features":
            raise table.refuse(key, "left out, for it is about feature files", value, "remove it")
    if columns["places"] is not None and columns["groups"] is None:
        wanted = "left out without `groups`"
        raise table.refuse("places", wanted, columns["places"], "name the column of the groups")
    wanted = "a list of different class names"
    classes = table.described("classes", wanted, shown="all", means="the only classes that stay")
    if classes is not None:
        named = isinstance(classes, list) and all(isinstance(name, str) for name in classes)
        if not named or not classes or len(set(classes)) != len(classes):
            raise table.refuse("classes", wanted, classes)
        columns["classes"] = tuple(classes)
    return columns


def _class_subsets(spec: DataSpec, count: int) -> list[DataSpec]:
    width = len(str(count))
    return [
        replace(
            spec,
            name=f"{spec.name}-{number:0{width}d}",
            class_subset=(number, count),
            part_of=spec.name,
        )
        for number in range(1, count + 1)
    ]


def _own_name(place: Path | None) -> str | None:
    """The name of the folder or file: two data sets of one's own are not both `ImageFolder`."""
    if place is None:
        return None
    return (place.resolve().stem if place.suffix == ".npz" else place.resolve().name) or None


def _held_out(table: TomlTable) -> tuple[tuple[str, ...], ...] | None:
    wanted = 'a list of different domain names, of lists of them, or "each"'
    value = table.described(
        "held_out",
        wanted,
        means='one run per entry, which does not train on it; "each" means every domain in turn',
    )
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
        raise table.refuse("held_out", wanted, value)
    return tuple(tuple(names) for names in sets)


def parse_executor(table: TomlTable) -> ExecutorSettings:
    """Check the values of the table; options of a command replace them."""
    settings = ExecutorSettings(
        kind=table.text(
            "kind",
            ExecutorSettings.kind,
            among=tuple(EXECUTORS),
            means="where workers run; this table is no part of the study and may change",
        ),
        workers=table.whole(
            "workers",
            0,
            shown="one for every core; required for `slurm`",
            means="how many workers are started",
        )
        or None,
        partition=table.optional_text("partition", means="the partition, for `slurm`"),
        time=table.optional_text(
            "time",
            shown='"1:00:00"',
            means="time limit of a job, for `slurm`; a worker goes on in its next job",
        ),
        memory=table.optional_text("memory", means="memory of a worker, such as `4G`"),
        cpus=table.whole("cpus", 0, shown="1", means="CPUs of a worker") or None,
        gpus=table.whole("gpus", 0, shown="0", means="GPUs of a worker") or None,
        address=table.optional_text(
            "address", shown="a cluster on this machine", means="of a running cluster, for `ray`"
        ),
    )
    table.finish()
    if settings.time is not None:
        minutes_of(settings.time)
    if settings.memory is not None:
        bytes_of(settings.memory)
    return settings


def parse_hparams(values: Any, seeds: int, file: str) -> dict[str, Fixed]:
    """The hyperparameters that a study sets; a list has one for each of its ``seeds``."""
    from checkwise.study.train import known_names
    from checkwise.study.train import table as hparam_rows

    table = TomlTable(values, "hparams", file)
    rows = {row.name: row for row in hparam_rows()}
    hparams: dict[str, Fixed] = {}
    for name in known_names():
        value = table.raw(name)
        if value is None:
            continue
        if isinstance(value, list) and len(value) != seeds:
            listed = f", one for each of the {seeds} hyperparameter seeds" if seeds else ""
            wanted = f"one number{listed}, or a range {{low = …, high = …}}"
            raise table.refuse(name, wanted, value)
        try:
            hparams[name] = _fixed(rows[name], value)
        except InputError as error:
            raise InputError(f"{error} ([hparams] of {file})", code=error.code) from None
    table.finish()
    return hparams


def _fixed(row: Hyperparameter, value: Any) -> Fixed:
    if isinstance(value, list):
        return tuple(row.checked(entry) for entry in value)
    if not isinstance(value, Mapping):
        return row.checked(value)
    ends = {name: value.get(name) for name in ("low", "high")}
    if set(value) != set(ends) or not all(type(end) in (int, float) for end in ends.values()):
        raise InputError(
            f"Expected a range of `{row.name}` as {{low = …, high = …}}, but got "
            f"{dict(value)!r:.80}: name both ends."
        )
    low, high = row.checked(ends["low"]), row.checked(ends["high"])
    if not 0 < low < high:
        raise InputError(
            f"Expected 0 < low < high in the range of `{row.name}`, but got {low:g} and {high:g}: "
            "correct them."
        )
    return LogUniform(low, high)


def parse_network(table: TomlTable) -> NetworkConfig:
    """The network of a study."""
    kind = cast(
        NetworkKind,
        table.text(
            "kind",
            among=NETWORK_KINDS,
            means="a small CNN for digits, a head on features, or a pretrained image network",
        ),
    )
    network = NetworkConfig(kind)
    if kind in ("mlp", "backbone"):
        hidden = table.whole(
            "hidden",
            network.hidden,
            least=1,
            means="hidden units of the head, for `mlp` and `backbone`",
        )
        network = replace(network, hidden=hidden)
    if kind == "backbone":
        network = replace(
            network,
            backbone=table.text(
                "backbone",
                network.backbone,
                means="`lite0`, `resnet50`, or `timm:<model>` for any model of timm",
            ),
            tune=cast(
                Tune,
                table.text(
                    "tune", network.tune, among=TUNES, means="the part of the backbone that learns"
                ),
            ),
            freeze_bn=table.flag(
                "freeze_bn", False, means="BatchNorm keeps its pretrained statistics"
            ),
            bn_momentum=table.optional_number(
                "bn_momentum",
                above=0,
                below=1,
                shown="that of the pretrained network",
                means="weight of a new minibatch in the statistics of live BatchNorm",
            ),
            channels_last=table.flag(
                "channels_last",
                False,
                means="convolutions with the channels last in memory: faster, other last bits",
            ),
        )
        if network.freeze_bn and network.bn_momentum:
            wanted = "absent beside `freeze_bn`, which fixes the statistics"
            raise table.refuse("bn_momentum", wanted, network.bn_momentum, "remove one of the two")
    table.finish()
    return network


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
    return parse_executor(TomlTable(values.get("executor", {}), "executor", str(path)))


def _read(source: Path | str) -> tuple[Path, dict[str, Any]]:
    path = Path(source)
    if path.is_dir() or not path.exists():
        known = shipped_studies()
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
    values: Mapping[str, Any], *, file: str, folder: Path, keys: list[StudyKey] | None = None
) -> Study:
    """Check the values of a study file; relative paths in it start from ``folder``.

    ``keys`` collects every key that the file may have, for the reference page.
    """
    from checkwise.study.train import algorithm_names

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
