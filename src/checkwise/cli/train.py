"""``checkwise train``: one run."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from checkwise.cli import printing
from checkwise.cli.options import Data, Plugins, StudyName, load_plugins
from checkwise.cli.progress import counting, watching_records


def command(
    study: StudyName,
    out: Annotated[Path, typer.Option("--out", "--output", "-o", help="The run's folder.")],
    algorithm: Annotated[str, typer.Option(help="The training algorithm.")] = "ERM",
    held_out: Annotated[
        str | None, typer.Option(help="The unseen domain. [default: the study's first]")
    ] = None,
    hparams_seed: Annotated[int, typer.Option(min=0, help="0 means the defaults.")] = 0,
    trial_seed: Annotated[int, typer.Option(min=0, help="Seed of split and training.")] = 0,
    data: Data = None,
    resume_seconds: Annotated[
        float, typer.Option(min=0, help="Least time between saved states.")
    ] = 20.0,
    plugin: Plugins = None,
) -> int:
    """Train one run with the settings of STUDY; the same command continues it."""
    from checkwise.errors import InputError
    from checkwise.records import RunKey
    from checkwise.store.atomic_write import writing
    from checkwise.store.lease import take
    from checkwise.store.verify import record_steps
    from checkwise.sweep.datasets import (
        all_roots,
        check_held_out,
        open_spec,
        read_roots,
        targets_of,
    )
    from checkwise.sweep.plan import run_config
    from checkwise.sweep.status import count_records
    from checkwise.sweep.study_file import read_study
    from checkwise.train.algorithms import check_algorithm
    from checkwise.train.build import prepare
    from checkwise.train.loop import train_run

    plugins = load_plugins(plugin)
    chosen = read_study(study).with_plugins(plugins)
    check_algorithm(algorithm)
    spec = chosen.data[0]
    roots = all_roots(chosen, read_roots(data or ()))
    targets = targets_of(spec, roots)
    names = spec.held_out[0] if spec.held_out else (targets[0],)
    if held_out is not None:
        names = tuple(held_out.split("+"))
    check_held_out(replace(spec, held_out=(names,)), targets)
    with counting("preparing data") as step:
        dataset = open_spec(spec, roots, progress=step)
        ready = prepare(dataset, chosen.network, augmented=chosen.augment, progress=step)
    key = RunKey(spec.name, algorithm, names, hparams_seed, trial_seed)
    config = run_config(chosen, key, ready)
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.set())
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        lease = take(out)
    if lease is None:
        raise InputError(
            f"Expected a run that nobody trains, but another process trains {out}.", code="busy"
        )
    console = printing.console()
    shown = ", ".join(f"{name} {value:g}" for name, value in config.hparams.items())
    console.print(f"{key}: {shown}")
    planned = len(record_steps(config.steps, config.record_every))
    with lease, watching_records(lambda: count_records(out), planned) as watch:

        def stop() -> bool:  # asked after every update
            watch()
            return asked.is_set()

        outcome = train_run(out, config, ready, lease, stop=stop, resume_seconds=resume_seconds)
    if outcome == "stopped":
        console.print(f"Stopped; the same command continues {out} where it stopped.")
        return 130
    console.print(f"Finished in {out}. Choose a checkpoint: checkwise select {out}")
    return 0
