"""Several runs made into one model: EoA averages logits, DiWA averages weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from checkwise.deployed import average, decode, read_checkpoint
from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.selection import select
from checkwise.store import read_run
from checkwise.study.baselines.derived import WEIGHTS, digest_of, folder_of, read_weights
from checkwise.study.baselines.means import SMA, with_batchnorm
from checkwise.study.baselines.recipe import (
    BATCHNORM,
    FROM_TRAINING,
    Model,
    Plan,
    Recipe,
    StoredRun,
)

if TYPE_CHECKING:
    from torch import Tensor

    from checkwise.study.baselines.evaluate import OpenRun

SAME_TASK = ("dataset", "algorithm", "held_out")
SAME_SPLIT = (*SAME_TASK, "trial_seed")
MEMBER = "sma"  # the method whose models are averaged


def plan_eoa(runs: Sequence[StoredRun], params: Mapping[str, Any]) -> Plan:
    """The moving averages of all runs that share data set, algorithm and held-out domains."""
    members = {
        str(run.key): digest_of(folder_of(run.cohort, MEMBER, run.key), WEIGHTS) for run in runs
    }
    notes = []
    if len({run.key.trial_seed for run in runs}) > 1:
        notes.append(
            "members split the source domains differently: some trained on part of the source "
            "validation examples, so source metrics flatter; held-out metrics do not"
        )
    return Plan({"members": members}, tuple(notes))


def make_eoa(
    runs: Sequence[OpenRun], inputs: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[RunKey, Model]:
    """Mean logits of all members on the splits of each run, which runs of one trial share."""
    from checkwise.study.baselines.evaluate import mean_logits

    members = []
    for run in runs:
        cohort = run.folder.parents[1]
        path = folder_of(cohort, MEMBER, run.key) / WEIGHTS
        members.append(decode(read_weights(cohort, MEMBER, run.key), path))
    by_trial: dict[int, Model] = {}
    for run in runs:
        if run.key.trial_seed not in by_trial:
            outputs = mean_logits([run.outputs(weights) for weights in members])
            by_trial[run.key.trial_seed] = Model(outputs, None)
    return {run.key: by_trial[run.key.trial_seed] for run in runs}


def plan_diwa(runs: Sequence[StoredRun], params: Mapping[str, Any]) -> Plan:
    """The source-acc checkpoints of runs that began from the same weights, best first."""
    starts = {read_run(run.folder).config.get("init_seed") for run in runs}
    if None in starts or len(starts) > 1:
        raise InputError(
            f"Expected runs that began from the same weights, but {runs[0].key} and "
            f"{runs[-1].key} each drew their own, so averaging them makes no sense: train them "
            "with shared_init = true under [training].",
            code="unsupported",
        )
    chosen = {run.key: select(run.trajectory, "source-acc", guard=False) for run in runs}
    accuracy = {key: c.columns["accuracy"][c.index] for key, c in chosen.items()}
    best_first = sorted(runs, key=lambda run: (-accuracy[run.key], run.key))
    return Plan(
        {
            "members": [str(run.key) for run in best_first],
            "steps": [chosen[run.key].step for run in best_first],
            "source.jsonl": [run.source_digest for run in best_first],
        }
    )


def make_diwa(
    runs: Sequence[OpenRun], inputs: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[RunKey, Model]:
    """All members, or greedily those that do not lower the source accuracy of the mean."""
    by_name = {str(run.key): run for run in runs}
    order = [by_name[name] for name in inputs["members"]]
    steps = dict(zip(inputs["members"], inputs["steps"], strict=True))
    members = [read_checkpoint(run.folder, steps[str(run.key)]) for run in order]
    host = order[0]
    if not params["greedy"]:
        return dict.fromkeys((run.key for run in runs), _mean(host, members, params["minibatches"]))
    taken, model = [members[0]], _mean(host, members[:1], params["minibatches"])
    names = [str(host.key)]
    for run, weights in zip(order[1:], members[1:], strict=True):
        candidate = _mean(host, [*taken, weights], params["minibatches"])
        if _source_accuracy(host, candidate) >= _source_accuracy(host, model):
            taken, model = [*taken, weights], candidate
            names.append(str(run.key))
    notes = (*model.notes, f"taken: {', '.join(names)}")
    model = Model(model.outputs, model.weights, notes)
    return {run.key: model for run in runs}


def _mean(host: OpenRun, members: Sequence[Mapping[str, Tensor]], minibatches: int) -> Model:
    mean = average(((weights, 1) for weights in members), parameters=host.parameters)
    return with_batchnorm(host, mean, minibatches)


def _source_accuracy(host: OpenRun, model: Model) -> Fraction:
    source, _ = host.entries(model.outputs)
    if source["diverged"]:
        return Fraction(-1)
    domains = source["domains"].values()
    return sum((Fraction(e["correct"], e["n"]) for e in domains), Fraction(0)) / len(domains)


_DIWA = Recipe(
    "mean of the source-acc weights of runs with one start",
    plan_diwa,
    make_diwa,
    {"greedy": False, **BATCHNORM},
    needs=FROM_TRAINING,
    share=SAME_SPLIT,
    varied="hparams_seeds",
)
ENSEMBLES: Final = {
    "eoa": Recipe(
        "mean of the logits of the sma of independent runs",
        plan_eoa,
        make_eoa,
        needs=FROM_TRAINING,
        share=SAME_TASK,
        varied="hparams_seeds or trial_seeds",
        requires={MEMBER: SMA},
    ),
    "diwa-uniform": _DIWA,
    "diwa-greedy": _DIWA.variant(
        "the same, each run added where source accuracy does not fall", greedy=True
    ),
}
