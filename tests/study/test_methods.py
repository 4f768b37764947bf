"""Rules, recalibrated rules, hyperparameter scopes and derived results in one comparison."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.calibrators import calibrators
from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.study import Cohort, method, methods
from checkwise.study.baselines import Derived, digest_of, write
from checkwise.study.folder import mark_done
from checkwise.study.lodo import families, pooled
from tests.refusals import refused
from tests.study.cohorts import WrittenRun, key, mark_again, tiny_runs, write_cohort


def pair(stretch: float, rights: int, n: int = 8) -> tuple[Any, Any]:
    """n examples; the first ``rights`` are predicted rightly, all by ``stretch``."""
    y = np.arange(n) % 2
    guess = np.where(np.arange(n) < rights, y, 1 - y)
    return (stretch * np.eye(2)[guess]).astype(np.float32), y


def save_logits(folder: Path, step: int, parts: dict[str, tuple[Any, Any]], side: str) -> None:
    path = folder / "predictions" / side / f"step-{step:06d}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {}
    for domain, (z, y) in parts.items():
        arrays[f"{domain}.logits"], arrays[f"{domain}.labels"] = z, y
    np.savez(path, **arrays)
    mark_again(folder)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The tiny cohort with logits: right in 6 of 8 source and 4 of 8 target examples."""
    folder = write_cohort(tmp_path / "tiny", tiny_runs()[:3])
    for run in (folder / "runs").iterdir():
        for step in (100, 200, 300):
            both = {"art": pair(3.0, 6), "photo": pair(3.0, 6)}
            save_logits(run, step, both, "source")
            save_logits(run, step, {"sketch": pair(3.0, 5)}, "heldout/sketch")
    return folder


def test_temperature_scaling_on_paper(path: Path) -> None:
    table = Cohort.open(path).evaluate("ac-nc+ts")
    assert table["step"].tolist() == [200, 200, 100]
    # Right with probability 6/8 at T = 3 / log 3; on the target 5 of 8 are right.
    assert table["temperature"].tolist() == pytest.approx([3 / np.log(3)] * 3)
    nll = -(5 * np.log(0.75) + 3 * np.log(0.25)) / 8
    assert table["target_nll"].tolist() == pytest.approx([nll] * 3)
    assert table["target_accuracy"].tolist() == [5 / 8] * 3
    # The source side is where it was fitted, and says so.
    assert table["source_nll"].tolist() == pytest.approx(
        [-(0.75 * np.log(0.75) + 0.25 * np.log(0.25))] * 3
    )
    assert table["in_sample"].tolist() == [True] * 3
    assert not Cohort.open(path).evaluate("ac-nc")["in_sample"].any()
    rows = Cohort.open(path).compare(["ac-nc+ts"], metrics=["source_nll", "target_nll"])
    assert rows["in_sample"].tolist() == [True, False]
    assert rows["needs"].tolist() == ["logits, logs"] * 2


def test_the_oracle_fits_the_target_and_is_marked(path: Path) -> None:
    cohort = Cohort.open(path)
    table = cohort.evaluate("ac-nc+ts-oracle")
    best = -(5 / 8 * np.log(5 / 8) + 3 / 8 * np.log(3 / 8))
    assert table["target_nll"].tolist() == pytest.approx([best] * 3)
    assert "not deployable" in cohort.compare(["ac-nc+ts-oracle"])["needs"][0]


def test_missing_logits_say_how_to_get_them(path: Path, tmp_path: Path) -> None:
    bare = Cohort.open(write_cohort(tmp_path / "bare", tiny_runs()))
    with refused('missing: 200 … `logits = "source"`'):
        bare.evaluate("ac-nc+ts")
    for held in path.glob("runs/*/predictions/heldout/*/*"):
        held.unlink()
    assert len(Cohort.open(path).select("ac-nc+ts")) == 3
    with refused("missing: held-out … 'sketch' … `logits = \"all\"`"):
        Cohort.open(path).evaluate("ac-nc+ts")


def test_any_rule_can_be_scaled_but_not_what_leaves_no_checkpoint(path: Path) -> None:
    assert len(Cohort.open(path).evaluate("pure-nll+ts")) == 3
    for name, message in [
        ("ac-mean+ts", "ac-mean does not leave one to scale"),
        ("swad+ts", "swad does not leave one to scale"),
        ("wald-recalibrated+ts", "does not leave one to scale"),
        ("ac-nc+platt", r"Expected ac-nc followed by \+ts-soften, \+ts, \+ts-max"),
        ("ac-nd", "but got 'ac-nd'"),
    ]:
        with pytest.raises(InputError, match=message):
            method(name)


def refinable(folder: Path) -> Path:
    """Step 100 is right more often; step 200 has the lower NLL, because it is less sure."""
    written = write_cohort(folder, tiny_runs()[:2])
    for run in (written / "runs").iterdir():
        for step, (stretch, rights) in {100: (9.0, 320), 200: (1.5, 300), 300: (6.0, 310)}.items():
            both = {"art": pair(stretch, rights, 400), "photo": pair(stretch, rights, 400)}
            save_logits(run, step, both, "source")
            save_logits(run, step, {"sketch": pair(stretch, rights, 400)}, "heldout/sketch")
    return written


def test_refining_chooses_by_the_nll_that_calibration_leaves(tmp_path: Path) -> None:
    cohort = Cohort.open(refinable(tmp_path / "c"))
    table = cohort.evaluate("refine")
    # 320 of 400 are right, so p should be 0.8: the temperature of step 100 is 9 / log 4.
    assert table["step"].tolist() == [100, 100]
    assert table["temperature"].tolist() == pytest.approx([9 / np.log(4)] * 2)
    nll = -(0.8 * np.log(0.8) + 0.2 * np.log(0.2))
    assert table["target_nll"].tolist() == pytest.approx([nll] * 2)
    # Cross-fitted, since there are 800 examples: near the entropy, and above it.
    assert np.all(table["score"] > nll)
    assert table["score"].tolist() == pytest.approx([nll] * 2, abs=0.01)
    wide = cohort.evaluate("ac-refine", delta_pp="100")
    assert wide["step"].tolist() == [100, 100]
    feasible = cohort.select("ac-refine")["gap_pp"]
    assert (feasible <= 0.5).all()
    needs = cohort.compare(["refine", "ac-refine"], metrics=["target_nll"])["needs"]
    assert needs.tolist() == ["logits, logs"] * 2


def test_every_calibrator_may_follow_a_rule_whatever_the_number_of_errors(tmp_path: Path) -> None:
    cohort = Cohort.open(refinable(tmp_path / "c"))
    for name in calibrators():
        assert len(cohort.evaluate(f"ac-nc+{name}")) == 2
    for run in (tmp_path / "c" / "runs").iterdir():
        for step, stretch in {100: 9.0, 200: 2.0, 300: 6.0}.items():
            both = {"art": pair(stretch, 40, 42), "photo": pair(stretch, 40, 42)}
            save_logits(run, step, both, "source")
    assert Cohort.open(tmp_path / "c").select("source-acc+ts")["temperature"].min() > 1


@pytest.mark.parametrize(
    "row",
    [
        *("ac-nc+ts", "source-acc+ts-multi", "ac-nc+ts-weighted", "wald-isotonic"),
        *("refine", "ac-refine", "source-acc+isotonic"),
    ],
)
def test_choosing_and_fitting_open_nothing_of_the_target(tmp_path: Path, row: str) -> None:
    folder = refinable(tmp_path / "c")
    before = Cohort.open(folder).select(row)
    for held in [*folder.glob("runs/*/heldout/*"), *folder.glob("runs/*/predictions/heldout/*/*")]:
        held.write_bytes(b"\xff spoiled")
    assert Cohort.open(folder).select(row).equals(before)
    with pytest.raises(InputError):
        Cohort.open(folder).evaluate(row)


def test_every_method_has_a_rule_or_a_recipe_and_says_what_it_needs() -> None:
    for name, registered in methods().items():
        assert method(name) == registered
        assert registered.name == name
        mark = " (exploratory)" * registered.guard
        assert registered.needs_text == ", ".join(sorted(registered.needs)) + mark
        assert (registered.rule is None) == (registered.recipe is not None)
        assert (registered.rule is None) == ("data" in registered.needs)
    by_rules = {name for name, one in methods().items() if one.is_rule and not one.params}
    assert by_rules == set(cw.rules())


def test_a_method_with_parameters_takes_what_it_does_not_set() -> None:
    wide = method("ac-nc", delta_pp="1.0")
    assert wide.taking({"delta_pp": "2.0", "q": 1, "other": 3}).params == {
        "q": 1,
        "delta_pp": "1.0",
    }
    assert wide.taking({"q": 1}).label == wide.label == "ac-nc(delta_pp=1.0)"
    assert method("swad").taking({"delta_pp": "2.0"}).params == {}


def test_a_diverged_target_stays_missing_after_scaling(tmp_path: Path) -> None:
    run = replace(tiny_runs()[0], target_diverged=(200,))
    folder = write_cohort(tmp_path / "c", [run])
    save_logits(
        next((folder / "runs").iterdir()), 200, {"art": pair(3, 6), "photo": pair(3, 6)}, "source"
    )
    assert np.isnan(Cohort.open(folder).evaluate("ac-nc+ts")["target_nll"][0])


def seeds() -> list[WrittenRun]:
    """Two hyperparameter seeds of one block, and an unrelated trial with one."""
    base = tiny_runs()[0]

    def run(h: int, trial: int, correct: tuple[int, ...], nll: tuple[float, ...]) -> WrittenRun:
        source = {"nll": nll, "cwece": nll, "ece": nll}
        return replace(
            base,
            key=RunKey("PACS", "ERM", ("sketch",), h, trial),
            correct=correct,
            source=source,
            target={"nll": tuple(10 * v for v in nll)},
        )

    return [
        run(0, 0, (180, 170, 160), (0.7, 0.4, 0.3)),
        run(1, 0, (179, 181, 180), (0.2, 0.6, 0.5)),
        run(0, 1, (180, 170, 160), (0.7, 0.4, 0.3)),
    ]


def test_hyperparameters_by_validation_accuracy_then_the_rule(tmp_path: Path) -> None:
    cohort = Cohort.open(write_cohort(tmp_path / "c", seeds()))
    table = cohort.select("ac-nc", scope="hparams-acc")
    # Seed 1 reaches 90.5 percent; in it step 300 is within 0.5 points and has the lower NLL.
    assert table["deployed"].tolist() == ["PACS-ERM-sketch-h1-t0", "PACS-ERM-sketch-h0-t1"]
    assert table["step"].tolist() == [300, 100]
    assert cohort.evaluate("ac-nc", scope="hparams-acc")["target_nll"].tolist() == [5.0, 7.0]


def test_the_rule_over_all_pairs_of_run_and_checkpoint(tmp_path: Path) -> None:
    cohort = Cohort.open(write_cohort(tmp_path / "c", seeds()))
    table = cohort.select("ac-nc", scope="hparams-ac", delta_pp=1)
    # Within a point of 90.5 are step 100 of both seeds and steps 200 and 300 of seed 1.
    assert table["eligible"].tolist() == [4, 1]
    assert table["step"].tolist() == [100, 100]
    assert table["deployed"].tolist() == ["PACS-ERM-sketch-h1-t0", "PACS-ERM-sketch-h0-t1"]
    # Within half a point are all of these but step 100 of seed 1, at 89.5.
    near = cohort.select("ac-nc", scope="hparams-ac")
    assert near["eligible"].tolist() == [3, 1]
    assert near["step"].tolist() == [300, 100]


def test_as_a_method_every_run_of_a_family_gets_the_familys_model(tmp_path: Path) -> None:
    cohort = Cohort.open(write_cohort(tmp_path / "c", seeds()))
    table = cohort.evaluate("hparams-ac").sort_values(["trial_seed", "hparams_seed"])
    assert table["deployed"].tolist() == ["PACS-ERM-sketch-h1-t0"] * 2 + ["PACS-ERM-sketch-h0-t1"]
    assert table["target_nll"].tolist() == [5.0, 5.0, 7.0]
    rows = cohort.compare(["hparams-acc", "hparams-ac"], metrics=["target_nll"])
    # source-acc: 7, 6, 7. hparams-acc: 6, 6, 7. hparams-ac: 5, 5, 7.
    assert rows["mean"].tolist() == pytest.approx([-1 / 3, -1.0])


def test_pooled_checkpoints_keep_earliest_and_ties_meaningful(tmp_path: Path) -> None:
    cohort = Cohort.open(write_cohort(tmp_path / "c", seeds()))
    members = families(cohort.usable)
    assert [len(runs) for runs in members.values()] == [2, 1]
    first = next(iter(members.values()))
    block = pooled({member: cohort.usable[member] for member in first})
    assert block.step_of == [100, 100, 200, 200, 300, 300]
    assert [run.hparams_seed for run in block.run_of] == [0, 1] * 3


def test_scopes_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    cohort = Cohort.open(write_cohort(tmp_path / "c", seeds()))
    with refused("unknown: run, hparams-acc, hparams-ac"):
        cohort.select("ac-nc", scope="block")
    with refused("unsupported"):
        cohort.evaluate("ac-mean", scope="hparams-ac")
    assert len(cohort.evaluate("ac-mean", scope="hparams-acc")) == 2
    odd = [seeds()[0], replace(seeds()[1], n=400)]
    with refused("differs"):
        Cohort.open(write_cohort(tmp_path / "d", odd)).select("ac-nc", scope="hparams-acc")


def entry(nll: float, correct: int, n: int) -> dict[str, Any]:
    return {
        "n": n,
        "correct": correct,
        "accuracy": correct / n,
        "nll": nll,
        "cwece": 0.1,
        "ece": 0.1,
    }


def derive(path: Path, run: RunKey, nll: float, **changes: Any) -> None:
    inputs: dict[str, Any] = {"steps": [100, 200], "multiplicities": [1, 1]}
    inputs["source.jsonl"] = digest_of(path / "runs" / str(run), "source.jsonl")
    record = Derived("swad", run, {}, inputs, 2.5)
    source = {"diverged": False, "domains": dict.fromkeys(("art", "photo"), entry(nll, 182, 200))}
    write(path, record, source=source, heldout={"sketch": {**entry(nll + 1, 66, 100), **changes}})


def test_derived_results_pair_with_rules(tmp_path: Path) -> None:
    path = write_cohort(tmp_path / "c", tiny_runs())
    with refused("missing: swad … --method"):
        Cohort.open(path).compare(["swad"])
    derive(path, key("ERM", 0), 0.2)
    derive(path, key("ERM", 1), 0.4)
    table = Cohort.open(path).evaluate("swad")
    assert table["target_nll"].tolist() == [1.2, 1.4]
    assert table["source_nll"].tolist() == pytest.approx([0.2, 0.4])
    assert table["gap_pp"].tolist() == pytest.approx([-1.0, -1.0])  # above the best checkpoint
    rows = Cohort.open(path).compare(["ac-nc", "swad"], metrics=["target_nll"]).set_index("rule")
    assert rows["n"].to_dict() == {"ac-nc": 3, "swad": 2}
    assert rows.loc["swad", "mean"] == pytest.approx((1.2 - 1.5 + 1.4 - 2.0) / 2)
    assert rows.loc["swad", "seconds"] == 2.5
    assert rows.loc["swad", "needs"] == "data, logs, weights"
    with refused("unsupported: swad"):
        Cohort.open(path).select("swad")


def test_a_derived_result_that_diverged_or_is_spoiled(tmp_path: Path) -> None:
    path = write_cohort(tmp_path / "c", tiny_runs())
    derive(path, key("ERM", 0), 0.2, diverged=True)
    rows = Cohort.open(path).compare(["swad"], metrics=["target_nll"])
    assert (rows["n"][0], rows["missing"][0]) == (0, 1)
    held = path / "derived" / "swad" / str(key("ERM", 0)) / "heldout" / "sketch.json"
    held.write_text("[]")
    with refused("damaged: sketch.json"):
        Cohort.open(path).evaluate("swad")


def test_a_result_of_other_records_is_refused(tmp_path: Path) -> None:
    path = write_cohort(tmp_path / "c", tiny_runs())
    derive(path, key("ERM", 0), 0.2)
    journal = path / "runs" / str(key("ERM", 0)) / "source.jsonl"
    journal.write_text(journal.read_text().replace("0.25", "0.35"))
    mark_done(journal.parent, 300)  # as if the run had been trained anew
    with refused("differs"):
        Cohort.open(path).evaluate("swad")


def test_derived_results_know_hyperparameters_too(tmp_path: Path) -> None:
    path = write_cohort(tmp_path / "c", seeds())
    for seed, nll in ((0, 0.2), (1, 0.4)):
        derive(path, RunKey("PACS", "ERM", ("sketch",), seed, 0), nll)
    assert len(Cohort.open(path).evaluate("swad", scope="hparams-acc")) == 1
    with refused("unsupported"):
        Cohort.open(path).evaluate("swad", scope="hparams-ac")


def penalised(algorithm: str) -> WrittenRun:
    return replace(tiny_runs()[0], key=key(algorithm, 0))


def log_penalties(path: Path, penalties: tuple[float, ...]) -> None:
    """Give the run of VREx a training log, as if it had been written so."""
    journal = path / "runs" / str(key("VREx", 0)) / "source.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line, penalty in zip(lines, penalties, strict=True):
        line["train"] = {"nll": 0.5, "penalty": penalty}
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    mark_done(journal.parent, 300)


def test_pair_covers_the_algorithms_with_a_penalty(tmp_path: Path) -> None:
    path = write_cohort(tmp_path / "c", [penalised("ERM"), penalised("VREx")])
    log_penalties(path, (0.3, 0.2, 0.1))
    cohort = Cohort.open(path)
    assert cohort.select("pair-valfilter")["step"].tolist() == [200]
    assert cohort.select("pair-last10")["step"].tolist() == [300]
    assert cohort.compare(["pair-last10"])["n"].tolist() == [1] * 4
    alone = Cohort.open(write_cohort(tmp_path / "d", [penalised("ERM")]))
    with refused("unsupported: VREx or IRM … pair-last10"):
        alone.select("pair-last10")


def test_rows_without_common_runs_are_refused(tmp_path: Path) -> None:
    path = write_cohort(tmp_path / "c", [penalised("ERM"), penalised("VREx")])
    log_penalties(path, (0.1, 0.1, 0.1))
    derive(path, key("ERM", 0), 0.2)
    with refused("empty"):
        Cohort.open(path).compare(["pair-last10"], "swad")


def test_the_guard_is_a_row_that_replaces_a_choice_only_where_validation_is_saturated(
    tmp_path: Path,
) -> None:
    plain, few = tiny_runs()[0], tiny_runs()[1]
    few = replace(few, correct=(199, 198, 198))
    cohort = Cohort.open(write_cohort(tmp_path / "c", [plain, few]))
    chosen = {name: cohort.select(name)["step"].tolist() for name in ("ac-nc", "ac-early")}
    for rule in ("ac-nc", "pure-nll"):
        alone = cohort.select(rule)["step"].tolist()
        guarded = cohort.select(f"{rule}+guard")["step"].tolist()
        assert guarded == [alone[0], chosen["ac-early"][1]]
    row = method("ac-nc+guard")
    assert "exploratory" in row.needs_text
    assert "exploratory" in row.summary
    assert not row.is_rule
    table = cohort.compare(["ac-nc+guard"])
    assert set(table["needs"]) == {"logs (exploratory)"}
    assert method("ac-nc+guard+ts-soften").guard


@pytest.mark.parametrize(
    "name", ["swad+guard", "ac-nc+ts+guard", "ac-nc+guard+guard", "refine+guard"]
)
def test_a_guard_stands_behind_a_rule_alone(name: str) -> None:
    with refused("unsupported: guard"):
        method(name)
