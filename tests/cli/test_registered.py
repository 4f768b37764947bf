"""Register contrasts on a cohort with places, open it, and read the table: a rehearsal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.selection import SAFER, members
from checkwise.study import NOT_PACKED, Cohort, read_contrasts, registered_sets
from checkwise.study.baselines import read_record
from checkwise.study.folder import LOG, OPENED, pack, unpack
from checkwise.study.folder.registration import read_log
from checkwise.study.sweep import Job, make_cohort, work
from checkwise.study.sweep.study_file import parse_study
from tests.cli.calls import answer, heard, refusal, run, said
from tests.weights.cohorts import derive

DOCS = Path(__file__).parents[2] / "studies" / "registered"
SITES = DOCS / "taicam-sites.toml"
STUDY: dict[str, Any] = {
    "name": "traps",
    "role": "evaluation",
    "data": {
        "dataset": "Features",
        "root": "traps.npz",
        "domain_by": "region",
        "groups": "site",
        "places": 3,
        "held_out": "each",
    },
    "network": {"kind": "mlp", "hidden": 8},
    "runs": {"algorithms": ["ERM"], "draws": 1},
    "training": {"steps": 41, "record_every": 5, "split_by": "both"},
    "records": {"logits": "all"},
    "hparams": {"lr": {"low": 1e-2, "high": 1e-1}, "batch_size": 8},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traps")
    random = np.random.default_rng(1)
    site = np.repeat(np.arange(18), random.integers(20, 40, 18))
    label = random.integers(0, 3, len(site))
    shift = random.normal(size=(18, 6))
    x = np.eye(3, 6)[label] * 1.5 + 0.5 * shift[site] + random.normal(size=(len(site), 6))
    region = np.where(site < 9, "north", "south")
    np.savez(folder / "traps.npz", features=x.astype("f4"), label=label, region=region, site=site)
    study = parse_study(STUDY, file="traps.toml", folder=folder)
    roots = {"traps": str(folder / "traps.npz")}
    cohort = make_cohort(study, folder / "out", roots)
    work(Job(cohort=str(cohort.path), round="test", roots=roots))
    return cohort.path


def test_the_registration_of_the_camera_traps(trained: Path) -> None:
    """One file and one command before, one command after; nothing opens in between."""
    registered = answer("study", "register", trained, "--contrasts", SITES)
    assert registered["state"] == "before"
    assert len(registered["places"]) == 6
    assert all(place["groups"] for place in registered["places"].values())
    assert "before held-out results were opened" in said(
        "study", "register", trained, "--digest", registered["digest"]
    )

    assert run("study", "register", trained, "--show") == 2  # averages are still to be made
    assert "checkwise study derive" in heard().err
    assert OPENED not in [entry["kind"] for entry in read_log(trained)]
    data = {"traps": str(trained.parent / "traps.npz")}
    for name in ("deploy-mean-probs", "advised"):
        derive(trained, name, roots=data)

    out = trained.parent / "results.json"
    text = said("study", "register", trained, "--show", "-o", out)
    assert "before held-out results were opened" in text
    assert "not worse by 0.50" in text
    assert registered["digest"] in text
    heard()
    digest = ("--digest", registered["digest"])
    assert run("study", "register", trained, "--show", *digest, "--json") == 0
    assert json.loads(heard().out) == json.loads(out.read_text())
    (one,) = json.loads(out.read_text())["sets"]
    assert one["same_code"]
    assert one["same_plan"]
    assert one["digest"] == registered["digest"]
    families = {c["name"]: c["family"] for c in one["contrasts"]}
    assert [name for name, family in families.items() if family == "main"] == list("abcd")
    for contrast in one["contrasts"]:
        tested = contrast["family"] is not None
        assert tested == (contrast["verdict"] != "estimate only"), contrast["name"]
        assert tested == (contrast["holm"] is not None)
        assert contrast["missing"] == 0
    worst = one["contrasts"][-1]
    assert (worst["at"], worst["low"], len(worst["by_place"])) == ("worst place", None, 2)

    rows = Cohort.open(trained).compare(["ac-nc"], "source-acc", metrics=["target_nll"])
    c = next(c for c in one["contrasts"] if c["name"] == "c")
    assert c["mean"] == pytest.approx(rows["mean"][0], abs=1e-12)  # one run a place
    assert (c["low"], c["high"]) == pytest.approx((rows["domain_low"][0], rows["domain_high"][0]))


def test_a_packed_study_lists_every_contrast(trained: Path, tmp_path: Path) -> None:
    """What needs logits stands there without numbers, and with the reason."""
    cohort = tmp_path / "traps"
    shutil.copytree(trained, cohort)
    (cohort / LOG).unlink(missing_ok=True)
    assert run("study", "register", cohort, "--contrasts", SITES) == 0
    pack(cohort, tmp_path / "traps.tar.xz")
    unpack(tmp_path / "traps.tar.xz", tmp_path / "back")
    heard()
    assert "not packed" in said("study", "register", tmp_path / "back", "--show")
    (one,) = answer("study", "register", tmp_path / "back", "--show")["sets"]
    assert [c["name"] for c in one["contrasts"]] == [
        c.name for c in read_contrasts(SITES).contrasts
    ]
    for contrast in one["contrasts"]:
        with_logits = (
            contrast["rule"] in ("advised", "deploy-mean-probs") or "+" in contrast["rule"]
        )
        assert with_logits == (contrast["mean"] is None), contrast["name"]
        if with_logits:
            assert (contrast["verdict"], contrast["runs"]) == (None, 0)
            assert contrast["reason"] == NOT_PACKED
    early = next(c for c in one["contrasts"] if c["name"] == "early")
    assert (early["verdict"], early["reason"]) == ("estimate only", None)


def test_advised_is_the_average_or_the_earliest_near_the_best(trained: Path) -> None:
    cohort = Cohort.open(trained)
    derive(trained, "advised", roots={"traps": str(trained.parent / "traps.npz")})
    averaged = 0
    for key in cohort.usable:
        run = cw.load(cohort.runs.folder(key))
        chosen = cw.select(run, "ac-nc", guard=False)
        assert chosen.saturation is not None
        steps = list(members(chosen, 5))
        if chosen.saturation.errors <= 5:
            steps = [cw.select(run, SAFER).step]
        record = read_record(trained, "advised", key)
        assert record is not None
        assert record.inputs["steps"] == steps
        averaged += len(steps) > 1
    assert averaged


def test_files_of_the_study_can_be_registered() -> None:
    for file in DOCS.glob("*.toml"):
        assert read_contrasts(file).title
    assert {name: len(f) for name, f in read_contrasts(SITES).families.items()} == {
        "main": 4,
        "advice": 3,
    }
    assert not read_contrasts(DOCS / "taicam-frozen.toml").families


def test_refusals(trained: Path, tmp_path: Path) -> None:
    assert "--contrasts alone" in refusal(
        "study", "register", trained, "--contrasts", SITES, "--rule", "ac-nc"
    )
    assert "file of contrasts" in refusal(
        "study", "register", trained, "--contrasts", tmp_path / "none.toml"
    )
    assert run("study", "register", trained, "--show", "--digest", "0" * 64) == 1
    assert "no registration in the log has this digest" in heard().out
    assert "--show" in refusal("study", "register", trained, "--show", "--rule", "ac-nc")
    assert "--show" in refusal("study", "register", trained, "-o", tmp_path / "results.json")
    assert ".json" in refusal(
        "study", "register", trained, "--show", "-o", tmp_path / "results.txt"
    )


def registered_cohort(place: Path) -> Path:
    """A small cohort, not all of it finished, with one contrast in its log."""
    from tests.study.cohorts import tiny_runs, write_cohort

    folder = write_cohort(place / "tiny", tiny_runs())
    file = place / "mine.toml"
    file.write_text(
        '[[contrast]]\nname = "one"\nrule = "ac-nc"\nreference = "source-acc"\n'
        'metric = "target_nll"\nfamily = "main"\n'
    )
    assert run("study", "register", folder, "--contrasts", file) == 0
    return folder


def test_an_unfinished_cohort_is_not_opened_unasked(tmp_path: Path) -> None:
    folder = registered_cohort(tmp_path)
    heard()
    assert "Nothing was opened" in refusal("study", "register", folder, "--show")
    assert [entry["kind"] for entry in read_log(folder)] == ["contrasts"]
    (one,) = answer("study", "register", folder, "--show", "--unfinished")["sets"]
    assert one["contrasts"][0]["verdict"] == "not found"
    (found,) = registered_sets(folder)
    assert found.same_plan
    plan = (folder / "cohort.json").read_text()
    (folder / "cohort.json").write_text(plan.replace('"development"', '"evaluation"'))
    assert "cohort.json has changed since" in said(
        "study", "register", folder, "--show", "--unfinished"
    )
    (folder / "cohort.json").write_text(plan)
    line = (folder / LOG).read_text().replace("ac-nc", "ac-ne", 1)
    (folder / LOG).write_text(line)
    assert "changed by hand" in refusal("study", "register", folder, "--show", "--unfinished")
    for words in ((), ("--show",)):
        assert run("study", "register", folder, "--digest", found.digest, *words) == 1
        assert "unknown" in heard().out


def test_estimates_alone_can_be_registered(trained: Path, tmp_path: Path) -> None:
    cohort = tmp_path / "copy"
    shutil.copytree(trained, cohort)
    (cohort / "registrations.jsonl").unlink(missing_ok=True)
    data = {"traps": str(trained.parent / "traps.npz")}
    for name in ("deploy-mean-probs", "advised"):
        derive(cohort, name, roots=data)
    assert "tested in no family, 7 estimates only" in said(
        "study", "register", cohort, "--contrasts", DOCS / "taicam-frozen.toml"
    )
    text = said("study", "register", cohort, "--show")
    assert "estimate only" in text
    assert "contradicted" not in text


@pytest.mark.parametrize(
    ("name", "value"), [("planned", "x"), ("places", 5), ("code", None), ("plan", 3)]
)
def test_a_log_that_was_forged_is_refused_in_one_line(
    name: str, value: object, tmp_path: Path
) -> None:
    """Every line is chained as it should be; its content is not what checkwise writes."""
    folder = registered_cohort(tmp_path)
    heard()
    content = json.loads((folder / LOG).read_text())
    (folder / LOG).write_text(json.dumps({**content, name: value}) + "\n")
    assert f"Expected {name} of a registered set" in refusal(
        "study", "register", folder, "--show", "--unfinished"
    )
