"""A study file: its keys, and the study that their values make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Final, get_args

from checkwise.errors import InputError
from checkwise.study.sweep.launching import ExecutorSettings, bytes_of, minutes_of
from checkwise.study.sweep.study import OWN, DataSpec, Fixed, Role, Study
from checkwise.study.train import (
    HPARAM_TABLE,
    NAME,
    OPTIONAL,
    SMA_START,
    Hyperparameter,
    LogUniform,
    NetworkConfig,
    StudyKey,
    TomlTable,
    UnfitError,
    ValueKind,
    keys_of,
    known_names,
    near,
    one_of,
    read_toml,
    whole,
)
from checkwise.words import listed

TOP: Final = (
    StudyKey("name", NAME, "what the study is called"),
    StudyKey(
        "role",
        one_of(lambda: get_args(Role)),
        "results of the two roles are never pooled unless asked for",
    ),
    StudyKey("description", OPTIONAL, "for readers; checkwise ignores it", None),
)
STUDY_TABLES: Final = {
    "": TOP,
    "data": (
        *keys_of(DataSpec),
        StudyKey(
            "class_subsets",
            whole(),
            "deals the classes into so many disjoint subsets (every n-th class), each a data set "
            "of its own: NAME-1, NAME-2 …",
            None,
        ),
    ),
    "network": keys_of(NetworkConfig),
    "runs": keys_of(Study, "runs"),
    "training": keys_of(Study, "training"),
    "records": keys_of(Study, "records"),
    "executor": keys_of(ExecutorSettings),
}
_NETWORK_TAKES: Final = {"digits": 1, "linear": 1, "mlp": 2}  # of these keys, the first


def shipped_studies() -> dict[str, Path]:
    folder = Path(str(resources.files("checkwise") / "study" / "files"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_study(source: Path | str) -> Study:
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
            what = "{!r} is a folder" if path.is_dir() else "there is no file {!r}"
            raise InputError(
                "Expected a study file (.toml) or the name of a shipped study, but "
                f"{what.format(str(source))}: {near(str(source), known, 'check the path.')} "
                f"Shipped are {listed(list(known))}.",
                code="unknown",
            )
        path = known[str(source)]
    return path, read_toml(path)


def parse_study(values: Mapping[str, Any], *, file: str, folder: Path) -> Study:
    def table(name: str) -> TomlTable:
        return TomlTable(values.get(name, {}), name, file)

    top = TomlTable(values, "", file).read(TOP, beside=(*STUDY_TABLES, "hparams"))
    data = _data_sets(values.get("data") or {}, top["role"], folder, file)
    of_network = table("network")
    takes = _NETWORK_TAKES.get(str(of_network.values.get("kind")))
    network = NetworkConfig(**of_network.read(STUDY_TABLES["network"][:takes]))
    if network.freeze_bn and network.bn_momentum:
        wanted = "absent beside `freeze_bn`, which fixes the statistics"
        raise of_network.refuse("bn_momentum", wanted, network.bn_momentum, "remove one")
    _executor(values, file)
    of_runs = table("runs").read(STUDY_TABLES["runs"])
    training = table("training").read(STUDY_TABLES["training"])
    if training["augment"] is None:
        training["augment"] = network.kind == "backbone" and network.tune == "all"
    records = table("records").read(STUDY_TABLES["records"])
    records["keep_delta_pp"] = str(records["keep_delta_pp"])
    draws = of_runs["draws"]
    if draws:
        for name in ("hparams_seeds", "trial_seeds"):
            if name in table("runs").values:
                wanted = "left out beside `draws`"
                raise table("runs").refuse(name, wanted, of_runs[name], "remove one")
        of_runs |= {"hparams_seeds": tuple(range(1, draws + 1)), "trial_seeds": ()}
    hparams = table("hparams").read(_hparams(0 if draws else len(of_runs["hparams_seeds"])))
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
    table = TomlTable(values.get("executor", {}), "executor", file)
    settings = ExecutorSettings(**table.read(STUDY_TABLES["executor"]))
    if settings.time is not None:
        minutes_of(settings.time)
    if settings.memory is not None:
        bytes_of(settings.memory)
    return settings


def _data_sets(content: Any, role: Role, folder: Path, file: str) -> tuple[DataSpec, ...]:
    tables = content if isinstance(content, list) else [content]
    specs = [
        spec for each in tables for spec in _data_set(TomlTable(each, "data", file), role, folder)
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
    values = table.read(STUDY_TABLES["data"])
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


def _hparams(seeds: int) -> list[StudyKey]:
    """The hyperparameters that a study may set; a list has one for each of its ``seeds``."""
    rows = {row.name: row for row in HPARAM_TABLE}
    each = f", a list of one for each of the {seeds} hyperparameter seeds" if seeds else ""

    def key(name: str) -> StudyKey:
        row = rows[name]
        wanted = f"{row.wanted}{each}, or a range {{low = …, high = …}} with low below high"
        return StudyKey(name, ValueKind(lambda: wanted, partial(_fixed, row, seeds)), "", None)

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
