"""A cohort: rules × runs → choices, held-out results, paired comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkwise.errors import InputError, naming_extras
from checkwise.records import RunKey, Trajectory
from checkwise.selection import DEFAULT_RULE, PREFERRED, REFERENCE, usable_rules
from checkwise.statistics import LEVEL, RESAMPLES, SEED, check_draws
from checkwise.store import Validation, check_validation, finished
from checkwise.study.baselines import folder_of
from checkwise.study.choices import choices, derived_outcomes
from checkwise.study.compare import (
    Contrast,
    Differences,
    check_carried,
    contrasts,
    flat_record,
    pair_outcomes,
)
from checkwise.study.folder import ROLES, CohortRecord, open_cohort, origin_of
from checkwise.study.heldout import Targets, with_derived_targets
from checkwise.study.imported import importable
from checkwise.study.lodo import check_scope
from checkwise.study.method_table import Method, method, with_shared
from checkwise.study.outcome import KEY_COLUMNS, Outcome, RunColumns, choice_frame, evaluated_frame
from checkwise.study.runs import Runs

if TYPE_CHECKING:
    import pandas

WITHOUT_METRICS = "ac-early"  # the rule beside the reference that needs accuracies only
MAIN_METRICS = ("target_accuracy", "target_nll", "target_ece", "target_cwece")
OPTIONS = ("weights", "worst_domain", "scope")  # how to choose, whatever the method


class Cohort:
    """The runs of one study on disk, with one role: development or evaluation.

    Only finished runs take part; the others are counted in ``unfinished``. Choosing reads source
    validation alone; held-out results are opened by ``evaluate`` and ``compare``.
    """

    def __init__(self, record: CohortRecord, role: str | None = None):
        self._record = record
        self.role: str = role or record.role
        planned = {
            key: folder
            for key, folder in record.runs.items()
            if role is None or record.roles.get(key.dataset) == role
        }
        if not planned:
            raise InputError(
                f"Expected runs with the role {self.role!r} in {record.path}, but there are none: "
                f"its role is {record.role}.",
                code="empty",
            )
        folders = {key: folder for key, folder in planned.items() if finished(folder)}
        self.unfinished: tuple[RunKey, ...] = tuple(key for key in planned if key not in folders)
        self.runs: Runs = Runs(folders)
        self._choices: dict[str, tuple[Outcome, ...]] = {}
        self._targets = {key: Targets(folder, key.held_out) for key, folder in folders.items()}

    @classmethod
    def open(cls, path: str | Path, *, role: str | None = None) -> Cohort:
        """Read the plan of a cohort, or its data sets with one role; runs are read when needed."""
        path = Path(path)
        if importable(path):
            raise InputError(
                f"Expected a study, but {path} holds logs or a table of other tools: make a "
                f"study of it with `checkwise study import {path}`, and open that.",
                code="unsupported",
            )
        return cls(open_cohort(path), role)

    def __repr__(self) -> str:
        return (
            f"<Cohort {self.name}: {len(self.runs)} finished runs, "
            f"{len(self.unfinished)} unfinished, role {self.role}>"
        )

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._record.path

    @property
    def name(self) -> str:
        """The name of the study."""
        return self._record.name

    @property
    def imported(self) -> bool:
        """Whether it was made of other people's logs or tables."""
        return origin_of(self._record) is not None

    @cached_property
    def main_metrics(self) -> tuple[str, ...]:
        """What a comparison shows unless told otherwise: the main metrics of held-out results."""
        measured = self._target_metrics
        return tuple(m for m in MAIN_METRICS if measured is None or m.partition("_")[2] in measured)

    @property
    def _target_metrics(self) -> Sequence[str] | None:
        """What an imported cohort knows of held-out domains; None where it is as of the source."""
        return self._record.metrics.get("target") if self.imported else None

    @cached_property
    def usual_rule(self) -> str:
        """The rule to compare where none is named: the best one for which there are metrics."""
        if not self.imported:
            return DEFAULT_RULE
        shared = set.intersection(*(set(run.metrics) for run in self.usable.values()))
        usable = usable_rules(shared)
        best = next(name for name in PREFERRED if name in usable)
        return best if best != REFERENCE else WITHOUT_METRICS

    def check_measured(self, row: Method, metrics: Sequence[str]) -> None:
        """Refuse what an imported cohort can never show; nothing held out is opened."""
        if self.imported:
            check_carried(metrics, [self._chosen(row)], self._target_metrics)

    @property
    def usable(self) -> dict[RunKey, Trajectory]:
        """Finished runs in which at least one checkpoint did not diverge."""
        return self.runs.usable

    @property
    def wrecked(self) -> tuple[RunKey, ...]:
        """Finished runs in which every checkpoint diverged: there is nothing to choose from."""
        return tuple(key for key in self.runs if key not in self.usable)

    @cached_property
    def n_diverged(self) -> int:
        """Checkpoints of usable runs whose source outputs were not finite."""
        return sum(run.n_diverged for run in self.usable.values())

    def check_one_role(self) -> None:
        """Refuse to pool development and evaluation data."""
        if self.role not in ROLES:
            raise InputError(
                f"Expected runs with one role, but {self.path} holds development and evaluation "
                "data: open it with role='evaluation' (--role on the command line), or compare "
                "by=['dataset'].",
                code="ambiguous",
            )

    def outcomes(
        self, row: Method, *, held_out: bool, scope: str = "run", **domains: Any
    ) -> tuple[Outcome, ...]:
        """What a rule or method gives on every finished run that it has a result for."""
        chosen = self._chosen(row, scope=scope, **domains)
        return self._on_targets(row, chosen) if held_out else chosen

    def _chosen(self, row: Method, *, scope: str = "run", **domains: Any) -> tuple[Outcome, ...]:
        """Before held-out results; rules choose once, however often they are asked for."""
        within = check_scope(scope)
        if not self.usable:
            raise InputError(
                f"Expected at least one finished run in {self.path}, but {len(self.unfinished)} "
                f"are unfinished and {len(self.wrecked)} diverged: `checkwise study run` with the "
                "same study finishes runs.",
                code="empty",
            )
        if row.rule is None:
            return derived_outcomes(self.path, self.usable, row.name, scope=within)
        asked = f"{row.identity} {scope} {domains!r}"
        if asked not in self._choices:
            self._choices[asked] = choices(self.path, self.runs, row, scope=within, domains=domains)
        return self._choices[asked]

    def _on_targets(self, row: Method, chosen: Sequence[Outcome]) -> tuple[Outcome, ...]:
        if row.rule is None:
            folders = [folder_of(self.path, row.name, outcome.deployed) for outcome in chosen]
            return tuple(map(with_derived_targets, folders, chosen))
        return tuple(
            self._targets[outcome.deployed].on(outcome, oracle=row.oracle) for outcome in chosen
        )

    def held_out(self, key: RunKey) -> dict[str, Mapping[str, Any]]:
        """Every held-out record of a run by domain: ``step``, ``diverged`` and the metrics."""
        return self._targets[key].journals()

    def target_at(self, key: RunKey, steps: Sequence[int]) -> RunColumns:
        """Target metrics at some steps of a run: means over its held-out domains, nan if none."""
        return self._targets[key].at(steps)

    @property
    def roles(self) -> Mapping[str, str]:
        """The role of every data set."""
        return self._record.roles

    def select(
        self, rule: str = DEFAULT_RULE, *, validation: Validation | None = None, **params: Any
    ) -> pandas.DataFrame:
        """The chosen checkpoint of every run; held-out results are not opened.

        ``validation`` says by which of two validation sets runs with both are chosen; the columns
        ``source_<metric>`` and ``gap_pp`` are of their own, the first, whichever it is.

        Columns: the run, ``step``, ``source_<metric>`` (fractions), ``gap_pp``, ``eligible``,
        ``score``, ``deployed`` (the run the model comes from), ``temperature``, ``in_sample``
        (``source_<metric>`` is on the examples that the temperature was fitted on).
        """
        (row,), options = _read([_by(rule, validation)], params)
        row.check_chooses()
        return choice_frame(self.outcomes(row, held_out=False, **options))

    def evaluate(
        self, rule: str = DEFAULT_RULE, *, validation: Validation | None = None, **params: Any
    ) -> pandas.DataFrame:
        """The choices with ``target_<metric>`` (fractions), one row per run and held-out domain."""
        (row,), options = _read([_by(rule, validation)], params)
        return evaluated_frame(self.outcomes(row, held_out=True, **options))

    def differences(
        self,
        rules: Sequence[str | Method] = (REFERENCE, DEFAULT_RULE),
        reference: str | Method = REFERENCE,
        *,
        metrics: Sequence[str] = MAIN_METRICS,
        validation: Validation | None = None,
        **params: Any,
    ) -> list[Differences]:
        """Rule − reference for every run that both have; one table per rule besides it."""
        if isinstance(rules, str):
            raise InputError(f"Expected a list of rules, but got {rules!r}: write [{rules!r}].")
        rules, reference = [_by(rule, validation) for rule in rules], _by(reference, validation)
        against, named = method(reference).label, [method(rule) for rule in rules]
        labels = [row.label for row in named]
        rows, options = _read([*named, *([] if against in labels else [reference])], params)
        chosen = {row.label: self._chosen(row, **options) for row in rows}
        check_carried(metrics, chosen.values(), self._target_metrics)
        # Nothing held out is opened before all that can be refused without it has been.
        outcomes = {row.label: self._on_targets(row, chosen[row.label]) for row in rows}
        check_carried(metrics, outcomes.values())
        return [
            replace(pair_outcomes(row.label, against, outcomes, metrics), needs=row.needs_text)
            for row in rows
            if row.label != against
        ]

    def contrasts(
        self,
        rules: Sequence[str | Method] = (REFERENCE, DEFAULT_RULE),
        reference: str | Method = REFERENCE,
        *,
        by: Sequence[str] = (),
        level: float = LEVEL,
        resamples: int = RESAMPLES,
        seed: int = SEED,
        **asked: Any,
    ) -> list[Contrast]:
        """The rows of ``compare``."""
        if isinstance(by, str) or any(name not in KEY_COLUMNS for name in by):
            raise InputError(
                f"Expected `by` to list columns among {', '.join(KEY_COLUMNS)}, but got {by!r}.",
                code="unknown",
            )
        check_draws(level=level, resamples=resamples)
        if "dataset" not in by:
            self.check_one_role()
        return [
            row
            for table in self.differences(rules, reference, **asked)
            for row in contrasts(table, by, level=level, resamples=resamples, seed=seed)
        ]

    @naming_extras()
    def compare(
        self,
        rules: Sequence[str | Method] = (REFERENCE, DEFAULT_RULE),
        reference: str | Method = REFERENCE,
        *,
        by: Sequence[str] = (),
        level: float = LEVEL,
        resamples: int = RESAMPLES,
        seed: int = SEED,
        **asked: Any,
    ) -> pandas.DataFrame:
        """Paired differences to the reference, on the reported scale (see :class:`Contrast`).

        Args:
            rules: names of rules and methods, or methods with parameters. ``ac-mean`` is the mean
                over the feasible set. Every row says what it needs and took, in seconds per run.
            reference: what is subtracted; it need not be among the rules.
            by: columns of the run key to split by, such as ``["algorithm"]``.
            level, resamples, seed: of the percentile bootstrap over run pairs.
            asked: ``metrics`` (``target_nll``, ``source_accuracy``, ``gap_pp`` …), parameters that
                every rule that takes them gets, ``weights`` or ``worst_domain``, and ``scope``
                ("run", "hparams-acc" or "hparams-ac": whether hyperparameters are chosen too).
                With ``validation="groups"`` every rule chooses by whole groups, of runs that have
                both validation sets; ``source-acc@groups`` is one rule that does.
        """
        import pandas

        rows = self.contrasts(
            rules, reference, by=by, level=level, resamples=resamples, seed=seed, **asked
        )
        facts = {
            "level": level,
            "resamples": resamples,
            "seed": seed,
            "unfinished": len(self.unfinished),
            "wrecked": len(self.wrecked),
        }
        table = pandas.DataFrame(
            {**dict(zip(by, row.group, strict=True)), **flat_record(row.record()), **facts}
            for row in rows
        )
        roles = dict(self._record.roles)
        table["role"] = table["dataset"].map(roles) if self.role not in ROLES else self.role
        return table


def _by(rule: str | Method, validation: Validation | None) -> Method:
    return method(rule).validated_by(check_validation(validation))


def _read(
    rules: Sequence[str | Method], params: Mapping[str, Any]
) -> tuple[tuple[Method, ...], dict[str, Any]]:
    options = {name: params[name] for name in OPTIONS if name in params}
    shared = {name: value for name, value in params.items() if name not in options}
    return with_shared(rules, shared), options
