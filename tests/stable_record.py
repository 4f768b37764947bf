"""What docs/stability.md promises, as it is now: names, arguments, options, keys of JSON.

``python -m tests.stable_record`` adds what is new to ``stable.json``, before a release. What is
gone stays in the file, and ``test_stable.py`` fails: that is a decision for people.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import typer

import checkwise as cw
from checkwise.cli import app, main
from checkwise.store.unpack import unpack
from tests.weights.cohorts import STUDY, train_cohort

HERE = Path(__file__).parent
RECORD = HERE / "stable.json"
EARLY = HERE / "material" / "early"
CONTRAST = """
[[contrast]]
name = "a"
rule = "ac-nc"
reference = "source-acc"
metric = "target_nll"
"""
# In the folder of `material`.
COMMANDS = {
    "rules": "rules --json",
    "doctor": "doctor --json",
    "metrics": "metrics one.npz --json",
    "select": "select RUN --json",
    "select, many": "select early --json",
    "status": "status early --json",
    "verify": "verify early --json",
    "preregister": "preregister early --contrasts contrasts.toml --json",
    "registered": "registered early --json",
    "compare": "compare early --json",
    "prune": "prune live --json",
    "predict": "predict RUN --function evaluate.py:outputs --domains a -o predicted --json",
    "calibrate": "calibrate RUN --json",
    "deploy": "deploy RUN -o model --json",
    "derive": "derive trained --method swad-nobn --json",
    "swad": "swad RUN --json",
}
# Keys below these are names out of somebody's environment or data.
OPEN = ("settings", "offered", "validation_errors", "versions")


def material(folder: Path) -> None:
    """Everything that `COMMANDS` read."""
    quick = STUDY.replace("[0, 1]", "[0]").replace("steps = 104", "steps = 40")
    quick = quick.replace('averages = ["sma", "dense-swad"]\n', "")
    train_cohort(folder, quick).rename(folder / "trained")
    unpack(EARLY / "early.tar.xz", folder / "early")
    np.savez(folder / "one.npz", logits=3 * np.eye(3), labels=np.arange(3))
    (folder / "contrasts.toml").write_text(CONTRAST)
    (folder / "evaluate.py").write_text(
        "import numpy as np\ndef outputs(path, domain): return 3 * np.eye(3), np.arange(3)\n"
    )
    (folder / "live").mkdir()
    (folder / "live" / "checkwise.jsonl").write_bytes((EARLY / "live.jsonl").read_bytes())


def keys() -> dict[str, list[str]]:
    """The keys that every command prints, as paths; in the current folder."""
    run = next(Path("trained/runs").iterdir())
    found = {}
    for name, line in COMMANDS.items():
        words = line.replace("RUN", str(run)).split()
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            main(words)
        try:
            found[name] = sorted(set(_paths(json.loads(text.getvalue()))))
        except ValueError as error:
            raise RuntimeError(f"`checkwise {' '.join(words)}`: {text.getvalue()!r}") from error
    return found


def _paths(value: Any, before: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inside in value.items():
            path = f"{before}.{key}".lstrip(".")
            yield path
            if key not in OPEN:
                yield from _paths(inside, path)
    elif isinstance(value, list):
        for inside in value:
            yield from _paths(inside, f"{before}[]")


def options() -> dict[str, list[str]]:
    """The options of every command."""
    group: Any = typer.main.get_command(app)
    return {
        name: sorted({option for one in command.params for option in one.opts if option[0] == "-"})
        for name, command in group.commands.items()
    }


def names() -> dict[str, list[str]]:
    """Public names with their arguments, by part."""
    parts = ["", *(name for name in cw.__all__ if inspect.ismodule(getattr(cw, name)))]
    found = {}
    for part in parts:
        module = import_module(f"checkwise.{part}".rstrip("."))
        public = [(name, getattr(module, name)) for name in getattr(module, "__all__", ())]
        found[part] = sorted(
            line for name, thing in public for line in [name, *_arguments(name, thing)]
        )
    return found


def _arguments(name: str, thing: Any) -> list[str]:
    if not inspect.isfunction(thing):
        return []
    return [f"{name}({argument})" for argument in inspect.signature(thing).parameters]


def now(folder: Path) -> dict[str, dict[str, list[str]]]:
    """All of it."""
    material(folder)
    with contextlib.chdir(folder):
        return {"names": names(), "options": options(), "keys": keys()}


def write() -> None:
    """Add what is new to the record."""
    with tempfile.TemporaryDirectory() as folder:
        found = now(Path(folder))
    kept = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for kind, groups in found.items():
        for group, lines in groups.items():
            before = kept.setdefault(kind, {}).get(group, [])
            kept[kind][group] = sorted({*before, *lines})
    RECORD.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    write()
