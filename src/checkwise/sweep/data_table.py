"""``[data]`` of a study file: which data, what is held out, which columns say what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast, get_args

from checkwise.errors import InputError
from checkwise.sweep.study import OWN, DataSpec, Role
from checkwise.sweep.toml_table import TomlTable
from checkwise.text import is_plain

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
    from checkwise.data import dataset_names

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
