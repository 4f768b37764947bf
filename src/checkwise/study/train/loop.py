"""Trains one run: updates, records, saved states; what may be added to it."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from checkwise.store import (
    RUN_FILE,
    SOURCE_FILE,
    Fingerprint,
    checkpoint_file,
    fingerprint,
    fingerprint_of,
    finished,
    has_file,
    heldout_file,
    read_journal,
    read_run,
    writing,
)
from checkwise.study.data import DomainDataset, described, source_domains
from checkwise.study.folder import (
    Journal,
    damaged,
    make_folders_in,
    mark_done,
    write_continued_run,
    write_run,
)
from checkwise.study.train import resume
from checkwise.study.train.algorithms import Algorithm
from checkwise.study.train.averages import Averages
from checkwise.study.train.build import TrainingData, build_run, evaluated_parts, splits_of
from checkwise.study.train.checkpoint_files import (
    drop_weights,
    kept_steps,
    predictions_files,
    write_predictions,
    write_weights,
)
from checkwise.study.train.config import RunConfig, check_same
from checkwise.study.train.evaluation import Evaluator, Outputs, heldout_entry, source_entry


class Hook(Protocol):
    """Called by the loop. A hook must not draw from torch's generator nor change the algorithm.

    ``name`` tells the states of several hooks apart. ``state()`` is saved with the run's own state
    (plain containers and tensors) and passed to ``load_state`` when the run is resumed, so what a
    hook writes has to follow from its state and the calls after it.
    """

    name: str

    def after_update(self, step: int, algorithm: Algorithm) -> None:
        """After every update; ``step`` counts from 0."""

    def at_record(self, record: Mapping[str, Any], algorithm: Algorithm, folder: Path) -> None:
        """Just before a record is committed; ``record`` is its line in ``source.jsonl``."""

    def state(self) -> dict[str, Any]:
        """All that later calls depend on."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state``."""


_CPU_INFO = Path("/proc/cpuinfo")


def machine(device: str) -> dict[str, str]:
    """Kind and name of the processor and the instructions that torch uses; no host name."""
    facts = {
        "architecture": platform.machine(),
        "processor": _processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }
    if device.startswith("cuda"):
        facts["accelerator"] = torch.cuda.get_device_name(device)
    return facts


@cache
def _processor() -> str:
    try:
        lines = _CPU_INFO.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or "unknown"


Ending: TypeAlias = Literal["finished", "stopped"]

RESUME_SECONDS = 20.0


def train_run(
    folder: Path,
    config: RunConfig,
    data: TrainingData,
    *,
    hooks: Sequence[Hook] = (),
    stop: Callable[[], bool] = lambda: False,
    resume_seconds: float = RESUME_SECONDS,
) -> Ending:
    """Train one run to its end; an interrupted run continues where it stopped.

    Args:
        folder: the run's folder; nobody else writes to it.
        config: everything that determines the run. A folder with another one is refused.
        data: the data set, prepared for ``config.network``.
        hooks: called after every update and at every record.
        stop: called after every update; once true, the state is saved and the loop ends.
        resume_seconds: least time between two saved states; a killed run continues from the last.
    """
    if finished(folder):
        resume.clear(folder)  # which a process that was killed had no time for
        return "finished"
    torch.set_num_threads(config.threads)
    with writing(folder), ExitStack() as stack:
        state, text = _claim(folder, config, data.dataset)
        if config.averages:
            hooks = [*hooks, Averages(config.averages, last_step=config.steps - 1)]
        run = _Run(folder, config, data, hooks, state, text, stack)
        saved = time.monotonic()
        for step in range(run.updates, config.steps):
            run.update(step)
            if step % config.record_every == 0 or step == config.steps - 1:
                run.record(step)
                if step < config.steps - 1 and time.monotonic() - saved >= resume_seconds:
                    run.save()
                    saved = time.monotonic()
            if step < config.steps - 1 and stop():
                run.save()
                return "stopped"
        mark_done(folder, config.steps - 1, known=run.known())
        resume.clear(folder)
    return "finished"


def _claim(
    folder: Path, config: RunConfig, dataset: DomainDataset
) -> tuple[resume.ResumeState | None, str]:
    """Check what the run left, and write ``run.json``: the state to continue from, and its text."""
    if has_file(folder, RUN_FILE):
        check_same(config, read_run(folder).config, folder)
    state = resume.load(folder)
    here = machine(config.device)
    if state is None:
        split = described(dataset, config.key.held_out, splits_of(config, dataset))
        text = write_run(folder, config.key, config.as_dict(), machine=here, split=split)
        return None, text
    resume.check(folder, state, config)
    text = write_continued_run(folder, state.run, updates=state.updates, machine=here)
    return state, text


class _Run:
    """What changes while a run trains."""

    def __init__(
        self,
        folder: Path,
        config: RunConfig,
        data: TrainingData,
        hooks: Sequence[Hook],
        state: resume.ResumeState | None,
        text: str,
        stack: ExitStack,
    ) -> None:
        self._folder = folder
        self._config = config
        self._hooks = tuple(hooks)
        self._inputs = data.inputs
        self._sources = source_domains(data.dataset, config.key.held_out)
        self._evaluate = Evaluator(data.inputs, evaluated_parts(config, data.dataset))
        self._algorithm, self._sampler = build_run(config, data)
        self._terms: dict[str, list[Tensor]] = {}
        self._text = text
        self._noted: dict[str, Fingerprint] = {}
        self.updates = 0
        lengths: dict[str, int] = {}
        if state is not None:
            self._continue_from(state)
            lengths = {name: noted["bytes"] for name, noted in state.journals.items()}
        resume.remove_leftovers(folder, self.updates)
        names = [SOURCE_FILE, *(heldout_file(d) for d in config.key.held_out)]
        self._journals = {
            name: stack.enter_context(
                Journal(make_folders_in(folder, name), length=lengths.get(name, 0))
            )
            for name in names
        }
        self._lines: list[Mapping[str, Any]] = list(read_journal(folder / SOURCE_FILE))

    def update(self, step: int) -> None:
        batches = self._inputs.minibatches(
            self._sources, self._sampler.next(), random=(self._config.training_seed, step)
        )
        terms = self._algorithm.update(batches)
        for name, term in terms.items():
            self._terms.setdefault(name, []).append(term)
        self.updates = step + 1
        for hook in self._hooks:
            hook.after_update(step, self._algorithm)

    def record(self, step: int) -> None:
        outputs = self._evaluate(self._algorithm)
        line = self._line(step, outputs)
        for hook in self._hooks:
            hook.at_record(line, self._algorithm, self._folder)
        keep = kept_steps([*self._lines, line], self._config.keep, self._config.keep_delta_pp)
        for domain in self._config.key.held_out:
            entry = {"step": step, **heldout_entry(outputs, domain, self._config)}
            self._journals[heldout_file(domain)].append(entry)
        write_predictions(self._folder, step, outputs, self._config)
        if step in keep:
            write_weights(self._folder, step, self._algorithm.deployable_state())
        self._journals[SOURCE_FILE].append(line)
        self._lines.append(line)
        if self._config.keep == "feasible":
            drop_weights(self._folder, keep)

    def save(self) -> None:
        self._noted = {
            name: self._noted.get(name) or fingerprint(self._folder, name)
            for name in self._written()
        }
        state = resume.ResumeState(
            digest=self._config.digest,
            updates=self.updates,
            algorithm=self._algorithm.training_state(),
            sampler=self._sampler.state(),
            journals={name: journal.fingerprint for name, journal in self._journals.items()},
            files=self._noted,
            run=self._text,
            terms={name: torch.stack(terms) for name, terms in self._terms.items()},
            hooks={hook.name: hook.state() for hook in self._hooks},
            generators=resume.generator_states(),
        )
        resume.save(self._folder, state)

    def known(self) -> dict[str, Fingerprint]:
        """Sizes and checksums that the run's files must have when it is finished."""
        written = self._written()
        for name in written:
            if not has_file(self._folder, name):
                raise damaged(self._folder / name, "removed")
        noted = {name: self._noted[name] for name in written if name in self._noted}
        journals = {name: journal.fingerprint for name, journal in self._journals.items()}
        return {RUN_FILE: fingerprint_of(self._text.encode()), **journals, **noted}

    def _written(self) -> list[str]:
        """Weights and predictions that the records so far have left."""
        steps = [int(line["step"]) for line in self._lines]
        keep = kept_steps(self._lines, self._config.keep, self._config.keep_delta_pp)
        return [
            *(checkpoint_file(step) for step in steps if step in keep),
            *(
                name
                for step in steps
                for name in predictions_files(step, self._config, self._config.key.held_out)
            ),
        ]

    def _continue_from(self, state: resume.ResumeState) -> None:
        self._algorithm.load_training_state(state.algorithm)
        self._sampler.set_state(state.sampler)
        self._terms = {name: list(terms.unbind()) for name, terms in state.terms.items()}
        for hook in self._hooks:
            hook.load_state(state.hooks[hook.name])
        resume.set_generators(state.generators)
        self._noted = dict(state.files)
        self.updates = state.updates

    def _line(self, step: int, outputs: Outputs) -> dict[str, Any]:
        line = {"step": step, **source_entry(outputs, self._config)}
        line["train"] = {name: _mean(terms) for name, terms in self._terms.items()}
        self._terms = {}
        return line


def _mean(terms: list[Tensor]) -> float | None:
    """The mean of a logged term; None if it is not finite, because JSON has no such number."""
    value = torch.stack(terms).double().mean().item()
    return value if math.isfinite(value) else None
