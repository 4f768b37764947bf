"""The page of a study file's keys, from the code that reads one."""

from __future__ import annotations

from checkwise.study.sweep import STUDY_TABLES, shipped_studies
from checkwise.study.train import (
    HPARAM_KINDS,
    HPARAM_MEANINGS,
    HPARAM_TABLE,
    known_names,
)
from studies.page import markdown

ABOUT = {
    "": "Above the first table:",
    "data": "`[data]`, or `[[data]]` once for each of several data sets:",
    "network": "`[network]`:",
    "runs": (
        "`[runs]`: one run for every combination of algorithm, held-out set, hparams seed and "
        "trial seed; or, with `draws`, independent runs of every algorithm and held-out set."
    ),
    "training": "`[training]`:",
    "records": "`[records]`:",
    "executor": (
        "`[executor]`: where workers run. It is no part of the study: change it, and the same "
        "command goes on. Options of the command replace it."
    ),
}
INTRODUCTION = """\
# The keys of a study file

A study file says what to train. It is written in TOML; [train.md](train.md) has an example. Check
it with `checkwise study run FILE --dry-run`, which names keys that are misspelt or do not fit.
`root` or `--data NAME=PATH` says where the data are; `CHECKWISE_DATA` names a folder that holds
each data set under its name.

For your own images, make one folder per domain, and in it one folder per class:

```toml
[data]
dataset = "ImageFolder"
root = "animals"                # runs are called animals-…; or set `name`
held_out = "each"
```

[Sites, patients, devices](groups.md) explains `domain_by`, `groups`, `places`, `split_by` and
`draws`.
"""
HPARAMS = """\
`[hparams]`: one value for all runs, a list with one value for each of `hparams_seeds`, or a range
`{low = 5e-5, high = 5e-4}`, of which every run draws a value whose logarithm is uniform. Without
it, seed 0 means the defaults and other seeds draw at random. A key that an algorithm does not read
has no effect on its runs.
"""


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for table, keys in STUDY_TABLES.items():
        parts.append(f"{ABOUT[table]}\n")
        rows = [(f"`{k.name}`", k.kind.wanted(), k.default_shown, k.means) for k in keys]
        parts.append(markdown(("key", "value", "default", "meaning"), rows))
    parts += [HPARAMS, markdown(("key", "default", "read by", "meaning"), _hparams())]
    names = ", ".join(f"`{name}`" for name in shipped_studies())
    parts.append(f"Shipped studies to copy from: {names}.\n")
    return "\n".join(parts)


def _hparams() -> list[tuple[str, str, str, str]]:
    lines = []
    for name in known_names():
        rows = [row for row in HPARAM_TABLE if row.name == name]
        defaults = [
            f"{row.default:g}" + (f" ({', '.join(row.kinds)})" if len(rows) > 1 else "")
            for row in rows
        ]
        kinds = {kind for row in rows for kind in row.kinds}
        who = ", ".join(rows[0].algorithms or ()) or "every algorithm"
        if kinds != set(HPARAM_KINDS):
            who += f" on {' and '.join(kind for kind in HPARAM_KINDS if kind in kinds)}"
        lines.append((f"`{name}`", ", ".join(defaults), who, HPARAM_MEANINGS[name]))
    return lines
