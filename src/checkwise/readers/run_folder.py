"""A run's folder as checkwise writes it: only ``run.json`` and ``source.jsonl`` are opened.

Source logits are read too where a metric is asked for that needs them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from checkwise.calibrators.refined import REFINED_METRICS
from checkwise.errors import InputError
from checkwise.readers.request import LoadedRun, Request
from checkwise.records.refined import with_refined
from checkwise.store import layout
from checkwise.store.attempts import still_there
from checkwise.store.logits import source_groups, source_logits
from checkwise.store.run import plugin_hint, read_run, read_trajectory, unknown_metrics


def recognises(path: Path) -> bool:
    """Whether a folder is a run of a cohort that has begun to record."""
    return (path / layout.RUN).is_file() and (path / layout.SOURCE).is_file()


def check_own(runs: Iterable[LoadedRun], request: Request) -> None:
    """Refuse to ask other people's runs for one of two validation sets."""
    if request.validation is None:
        return
    for run in runs:
        if not recognises(Path(run.where)):
            raise InputError(
                f"Expected a run of checkwise for --validation {request.validation}, but "
                f"{run.where} is none: leave it out; --source and --held-out say what is read."
            )


def read(path: Path, request: Request) -> list[LoadedRun]:
    """The one run of the folder; its held-out results are in other files and stay closed."""
    path = still_there(path)
    run = read_trajectory(path, request.validation)
    unknown = sorted(set(request.held_out) - set(run.key.held_out if run.key else ()))
    if unknown:
        raise InputError(
            f"Expected --held-out to name what {path} was trained without, but got "
            f"{', '.join(unknown)}: its source domains are {', '.join(run.domains)}."
        )
    request.expects_log(path, run.domains)
    if set(request.metrics) & set(REFINED_METRICS):
        run = with_refined(
            run,
            partial(source_logits, path, validation=request.validation),
            groups=source_groups(path, int(run.steps[0]), request.validation),
        )
    absent = [name for name in request.metrics if name not in run.metrics]
    recorded = read_run(path) if absent else None
    if recorded is not None and set(absent) & set(unknown_metrics(recorded)):
        raise InputError(
            f"Expected the plugin that defines {', '.join(absent)}, which {path} was trained with, "
            f"but it was not given: run the same command again and {plugin_hint(recorded)}."
        )
    return [LoadedRun(run.key, run, str(path))]
