"""Study files: TOML, checked when read, with messages that name key and allowed values."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, cast

from checkwise.errors import InputError
from checkwise.store.retention import KEEPS, Keep
from checkwise.sweep.study import DataSpec, Role, Study
from checkwise.sweep.tables import Table, near
from checkwise.train.config import (
    AVERAGES,
    LOGITS,
    NETWORK_KINDS,
    SMA_START,
    TUNES,
    Average,
    Logits,
    NetworkConfig,
    NetworkKind,
    Tune,
)
from checkwise.train.hparams import Value

ROLES = ("development", "evaluation")


def shipped() -> dict[str, Path]:
    """Studies that come with the package, by name."""
    folder = Path(str(resources.files("checkwise") / "studies"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_study(source: Path | str) -> Study:
    """Read a study file, or a shipped study by its name."""
    path = Path(source)
    if path.suffix != ".toml" and (path.is_dir() or not path.exists()):
        known = shipped()
        if str(source) not in known:
            raise InputError(
                f"Expected a study file (.toml) or one of {', '.join(known)}, but got "
                f"{str(source)!r}: {near(source, known)}."
            )
        path = known[str(source)]
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"Expected a study file in TOML, but got: {reason} in {path}: correct it."
        ) from None
    return parse_study(values, file=str(path), folder=path.parent)


def parse_study(values: Mapping[str, Any], *, file: str, folder: Path) -> Study:
    """Check the values of a study file; ``folder`` is what relative paths in it start from."""
    from checkwise.train.algorithms import algorithms

    top = Table(values, "", file)
    name = top.text("name")
    role = cast(Role, top.text("role", among=ROLES))
    top.raw("description")
    given = top.raw("data")
    runs = Table(top.raw("runs", {}), "runs", file)
    training = Table(top.raw("training", {}), "training", file)
    records = Table(top.raw("records", {}), "records", file)
    network = _network(Table(top.raw("network", {}), "network", file))
    given_hparams = top.raw("hparams", {})
    top.finish()
    seeds = runs.seeds("hparams_seeds", (0,))
    study = Study(
        name=name,
        data=_data(given, role, file, folder),
        network=network,
        algorithms=runs.names("algorithms", among=algorithms()),
        hparams_seeds=seeds,
        trial_seeds=runs.seeds("trial_seeds", (0,)),
        steps=training.whole("steps", least=1),
        record_every=training.whole("record_every", least=1),
        holdout=training.number("holdout", 0.2, above=0, below=1),
        augment=training.flag("augment", network.kind == "backbone" and network.tune == "all"),
        averages=_averages(training),
        shared_init=training.flag("shared_init", False),
        bins=records.whole("bins", 15, least=2),
        bandwidth=records.number("bandwidth", 0.1, above=0, below=10),
        keep=cast(Keep, records.text("keep", "feasible", among=KEEPS)),
        keep_delta_pp=str(records.number("keep_delta_pp", 1.0, above=-1e-9, below=100.1)),
        logits=cast(Logits, records.text("logits", "none", among=LOGITS)),
        source_in=records.flag("source_in", False),
        hparams=_hparams(given_hparams, len(seeds), file),
    )
    for table in (runs, training, records):
        table.finish()
    _check_together(study, file)
    return study


def _data(given: Any, role: Role, file: str, folder: Path) -> tuple[DataSpec, ...]:
    from checkwise.data import dataset_names

    tables = given if isinstance(given, list) else [given]
    if given is None or not tables:
        raise InputError(
            f"Expected a table [data] with `dataset` and `held_out`, but got none in {file}: "
            "add it."
        )
    specs = []
    for values in tables:
        table = Table(values, "data", file)
        dataset = table.text("dataset", among=dataset_names())
        root = table.optional_text("root")
        specs.append(
            DataSpec(
                dataset=dataset,
                name=table.text("name", dataset),
                role=cast(Role, table.text("role", role, among=ROLES)),
                held_out=_held_out(table),
                size=table.whole("size", 0) or None,
                deduplicate=table.flag("deduplicate", False),
                root=str(folder / Path(root).expanduser()) if root else None,
            )
        )
        table.finish()
    names = [spec.name for spec in specs]
    if len(set(names)) != len(names):
        raise InputError(
            f"Expected data sets with unlike names, but got {', '.join(names)} in {file}: "
            "give each [[data]] a `name`."
        )
    return tuple(specs)


def _held_out(table: Table) -> tuple[tuple[str, ...], ...] | None:
    value = table.raw("held_out")
    if value == "each":
        return None
    sets = [[entry] if isinstance(entry, str) else entry for entry in value or ()]
    fits = isinstance(value, list) and all(
        isinstance(names, list) and names and all(isinstance(name, str) for name in names)
        for names in sets
    )
    if not fits or not sets or len({tuple(names) for names in sets}) != len(sets):
        wanted = 'a list of different domain names, of lists of them, or "each"'
        raise table.refuse("held_out", wanted, value)
    return tuple(tuple(names) for names in sets)


def _averages(table: Table) -> tuple[Average, ...]:
    if table.raw("averages", []) == []:
        return ()
    return cast(tuple[Average, ...], table.names("averages", among=AVERAGES))


def _network(table: Table) -> NetworkConfig:
    kind = cast(NetworkKind, table.text("kind", among=NETWORK_KINDS))
    plain = NetworkConfig(kind)
    if kind == "mlp":
        found = NetworkConfig(kind, hidden=table.whole("hidden", plain.hidden, least=1))
    elif kind == "backbone":
        found = NetworkConfig(
            kind,
            hidden=table.whole("hidden", plain.hidden, least=1),
            backbone=table.text("backbone", plain.backbone),
            tune=cast(Tune, table.text("tune", plain.tune, among=TUNES)),
            freeze_bn=table.flag("freeze_bn", False),
        )
    else:
        found = plain
    table.finish()
    return found


def _hparams(values: Any, seeds: int, file: str) -> dict[str, Value | tuple[Value, ...]]:
    from checkwise.train.hparams import TABLE, known_names

    table = Table(values, "hparams", file)
    rows = {row.name: row for row in TABLE}
    found: dict[str, Value | tuple[Value, ...]] = {}
    for name in known_names():
        value = table.raw(name)
        if value is None:
            continue
        if isinstance(value, list) and len(value) != seeds:
            wanted = f"one number, or one for each of the {seeds} hyperparameter seeds"
            raise table.refuse(name, wanted, value)
        try:
            found[name] = (
                tuple(rows[name].checked(each) for each in value)
                if isinstance(value, list)
                else rows[name].checked(value)
            )
        except InputError as error:
            raise InputError(f"{error} ([hparams] of {file})") from None
    table.finish()
    return found


def _check_together(study: Study, file: str) -> None:
    if study.network.kind == "linear" and "CORAL" in study.algorithms:
        raise InputError(
            "Expected algorithms that a linear head can train, but got 'CORAL', which on features "
            f'that do not learn equals ERM, in {file}: use kind = "mlp" or leave CORAL out.'
        )
    if "sma" in study.averages and study.steps <= SMA_START:
        raise InputError(
            f"Expected more than {SMA_START} updates for the average 'sma', which begins at step "
            f"{SMA_START}, but got `steps` = {study.steps} in {file}: train longer or leave it out."
        )
    if study.record_every > study.steps:
        raise InputError(
            f"Expected `record_every` of at most `steps` ({study.steps}), but got "
            f"{study.record_every} in {file}: lower it."
        )
