"""Whether the plugins at hand are those that runs were trained with; nothing is imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from checkwise.plugins import find_plugin
from checkwise.store import layout
from checkwise.store.cohort import open_cohort
from checkwise.store.inside import has_file
from checkwise.store.run import read_run
from checkwise.store.verify import Fault


def verify_plugins(path: Path, sources: Iterable[str]) -> tuple[list[Fault], list[str]]:
    """Plugins that changed, and notes about those that could not be compared."""
    alone = has_file(path, layout.RUN)
    facts = read_run(path).config if alone else open_cohort(path).study
    recorded = facts.get("plugins")
    recorded = recorded if isinstance(recorded, Mapping) else {}
    given = {plugin.name: plugin.sha256 for plugin in map(find_plugin, sources)}
    faults, notes = [], []
    for name, sha256 in recorded.items():
        if name not in given:
            notes.append(
                f"Trained with the plugin {name} (SHA-256 {sha256:.12}…), which was not compared: "
                f"add --plugin {name}."
            )
        elif given[name] != sha256:
            what = f"the plugin changed (was {sha256:.12}…, is {given[name]:.12}…)"
            faults.append(Fault(name, "damaged", what, "restore it"))
    notes += [f"No run was trained with the plugin {n}." for n in given if n not in recorded]
    return faults, notes
