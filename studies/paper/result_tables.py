"""The tables of the first study, one function each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from checkwise.records import RunKey
from checkwise.study import Cohort, Pool
from checkwise.study.tables import Table, build, column_title, hparam
from studies.page import DATA
from studies.paper.beside import Paper, beside, grid, runs_and_domains
from studies.paper.contrast import REFERENCE, RULE, TARGETS, change

CHANGES = runs_and_domains(TARGETS)
SHOWN = ("target_nll", "target_accuracy")
PROXIES = {"source accuracy": "source-acc", "AC utility": "ac-nc"}


class Results:
    """The study's cohorts and what was built from them."""

    def __init__(self, cohorts: Mapping[str, Cohort]):
        self.cohorts = cohorts
        self.paper = Paper()
        self.main = Pool([cohorts["pacs-frozen"], cohorts["officehome-frozen"]])
        self.ladder = Pool([cohorts["pacs-ladder"], cohorts["officehome-ladder"]])
        self._tables: dict[str, Table] = {}

    def table(self, name: str) -> Table:
        """A table of both main cohorts."""
        if name not in self._tables:
            self._tables[name] = build(name, self.main)
        return self._tables[name]


def cohorts(results: Results) -> str:
    """What was run; times were measured when the cohorts were trained."""
    times = json.loads((DATA / "times.json").read_text())
    lines = [
        (
            *(f"`{name}`", cohort.role, str(len(cohort.runs))),
            f"{sum(len(run.steps) for run in cohort.usable.values()):,}",
            *(str(cohort.n_diverged), str(len(cohort.wrecked)), times["wall"][name]),
        )
        for name, cohort in results.cohorts.items()
    ]
    header = ("cohort", "role", "runs", "records", "diverged records", "runs lost", "wall time")
    return f"{grid(header, lines, 2)}\n\n{times['machine']}"


def main_table(results: Results) -> str:
    return beside(
        results.table("main"),
        ("gap_pp", *TARGETS, "target_nll_median", "target_nll_trimmed"),
        paper=results.paper,
    )


def by_algorithm(results: Results) -> str:
    return beside(
        results.table("by-algorithm"),
        ("gap_pp", *TARGETS, "target_nll_median", "whd"),
        paper=results.paper,
        published=lambda row: (row["algorithm"], RULE, REFERENCE),
    )


def without_penalties(results: Results) -> str:
    return beside(
        results.table("without-penalties"),
        (*CHANGES, "target_nll_median", "target_nll_trimmed"),
        note=False,
    )


def losses(results: Results) -> str:
    return beside(
        results.table("losses"),
        ("gain", "equal", "lose", "lose_1pp", "lose_1pp_share", "percentile_5", "worst"),
        where=lambda row: row["contrast"].endswith("source-acc"),
        paper=results.paper,
        published=lambda row: ("", RULE, REFERENCE),
    )


def influence(results: Results) -> str:
    return beside(
        results.table("influence"),
        ("own_change", "change", "change_without", "moved_errors", "sign_changes"),
        where=lambda row: row["data"] != "both",
    )


def inference(results: Results) -> str:
    """Cluster-t alone: with blocks, draws, trials, held-out domains, and blocks × domains."""
    return beside(
        results.table("inference"),
        ("change", "detectable", "p"),
        where=lambda row: (
            row["interval"] == "t" and row["clusters of"] != "run" and row["data"] != "both"
        ),
        note=False,
    )


def main_changes(results: Results) -> str:
    return beside(
        results.table("main-changes"),
        ("gap_pp_over_runs", *CHANGES, "target_nll_median", "target_nll_trimmed", "whd"),
        paper=results.paper,
        published=lambda row: ("", RULE, REFERENCE),
    )


def blocks(results: Results) -> str:
    """The nine blocks of seeds one by one, and what is left without each."""
    lines = []
    for data, role in (("OfficeHome", "evaluation"), ("PACS", "development")):
        kept = np.array([each == role for each in results.main.roles])
        found = results.main.differences(RULE, REFERENCE, TARGETS, kept)
        rates = dict(zip(results.main.keys, hparam(results.main, "lr"), strict=True))
        nll = found.values[:, TARGETS.index("target_nll")]
        for block in sorted({(key.hparams_seed, key.trial_seed) for key in found.keys}):
            mine = [(key.hparams_seed, key.trial_seed) == block for key in found.keys]
            first = found.keys[mine.index(True)]
            others = np.array([key not in _in(block, found.keys) for key in results.main.keys])
            left = change(results.main, role, keep=others)["target_nll"]
            own = left.text(float(nll[mine].mean()), signed=True)
            seeds = f"{block[0]}, {block[1]}"
            lines.append((data, seeds, f"{rates[first]:.2g}", own, str(left), str(sum(mine))))
    header = ("data", "hparams seed, trial seed", "learning rate", "Target NLL of the block")
    return grid((*header, "Target NLL without it [95%, cluster-t]", "runs"), lines, 2)


def _in(block: tuple[int, int], keys: Sequence[RunKey]) -> set[RunKey]:
    return {key for key in keys if (key.hparams_seed, key.trial_seed) == block}


def multiplicity(results: Results) -> str:
    return beside(
        results.table("multiplicity"),
        ("change", "p", "p_holm", "p_max_t"),
        where=lambda row: row["metric"] in SHOWN and row["data"] != "both",
    )


def tolerance(results: Results) -> str:
    return beside(
        results.table("tolerance-dataset"),
        ("eligible", "gap_pp", *TARGETS, "target_nll_median"),
        paper=results.paper,
        published=lambda row: ("", _tolerance(row["rule"]), ""),
    )


def tolerance_changes(results: Results) -> str:
    return beside(
        results.table("tolerance-changes"),
        ("source_accuracy_over_runs", *CHANGES, "target_nll_median"),
        paper=results.paper,
        published=_both_tolerances,
    )


def _both_tolerances(row: Mapping[str, str]) -> tuple[str, str, str]:
    rule, reference = row["contrast"].split(" − ")
    return "", _tolerance(rule), _tolerance(reference)


def _tolerance(text: str) -> str:
    return f"ac-nc(delta_pp={text.removeprefix('δ = ')})"


def components(results: Results) -> str:
    return beside(
        results.table("component-dataset"),
        ("gap_pp", *TARGETS, "target_nll_median", "whd"),
        paper=results.paper,
    )


def component_changes(results: Results) -> str:
    return beside(
        results.table("component-changes"),
        (*CHANGES, "target_nll_median"),
        paper=results.paper,
        published=lambda row: ("", "ac-nc", row["reference"]),
    )


def composition(results: Results) -> str:
    return beside(
        results.table("composition"),
        (
            *("feasible_total", "singletons", "multi", "differs", "nondominated_one"),
            *("nondominated_many", "pairs", "pairs_opposed"),
        ),
        paper=results.paper,
    )


def ranks(results: Results) -> str:
    return beside(
        results.table("rank-correlation"),
        ("rho", "tau", "rho_given_step", "rho_by_step", "valid"),
        paper=results.paper,
        published=lambda row: ("", PROXIES.get(row["source proxy"], ""), ""),
        note=False,
    )


def kendall(results: Results) -> str:
    return beside(results.table("kendall"), ("tau_accuracy", "tau_nll", "tau_ece", "tau_cwece"))


def ranking_value(results: Results) -> str:
    return beside(results.table("ranking-value"), (*CHANGES, "target_nll_median"), note=False)


def controls(results: Results) -> str:
    return beside(
        results.table("controls"),
        ("gap_pp", *TARGETS, "target_nll_median"),
        paper=results.paper,
        note=False,
    )


def learning_rate(results: Results) -> str:
    return beside(
        build("learning-rate", results.ladder),
        ("eligible", "gap_pp_over_runs", *CHANGES, "target_nll_median"),
        note=False,
    )


def length(results: Results) -> str:
    return beside(results.table("length"), ("eligible", *CHANGES, "target_nll_median"))


def duplicates(results: Results) -> str:
    """The same 72 runs with and without exact duplicates."""
    without = Pool([results.cohorts["officehome-deduplicated"]])
    same = np.array([key in without.keys for key in results.main.keys])
    lines = []
    for name, found in (
        ("all images", change(results.main, keep=same)),
        ("without exact duplicates", change(without)),
    ):
        nll = found["target_nll"]
        median = nll.text(nll.row.median, signed=True)
        lines.append((name, *(str(found[m]) for m in TARGETS), median, str(nll.n)))
    header = (
        "OfficeHome, ERM and VREx",
        *(column_title(m) for m in TARGETS),
        "Target NLL median",
        "runs",
    )
    return grid(header, lines, 1)
