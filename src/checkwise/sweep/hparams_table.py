"""``[hparams]`` of a study file: hyperparameters that are fixed, or drawn from a range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkwise.errors import InputError
from checkwise.sweep.study import Fixed
from checkwise.sweep.toml_table import TomlTable
from checkwise.train.hparams import Hyperparameter, LogUniform


def parse_hparams(values: Any, seeds: int, file: str) -> dict[str, Fixed]:
    """The hyperparameters that a study sets; a list has one for each of its ``seeds``."""
    from checkwise.train.hparams import known_names
    from checkwise.train.hparams import table as hparam_rows

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
