"""Register contrasts on a cohort with places, open it, and read the table: a rehearsal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.cli import main
from checkwise.selection import SAFER, members
from checkwise.study import NOT_PACKED, Cohort, read_contrasts, registered_sets
from checkwise.study.baselines import read_record
from checkwise.study.folder import LOG, OPENED, pack, unpack
from checkwise.study.folder.registration import read_log
from checkwise.study.sweep import Job, make_cohort, work
from checkwise.study.sweep.study_file import parse_study
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


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_the_registration_of_the_camera_traps(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One file and one command before, one command after; nothing opens in between."""
    assert run("study", "register", trained, "--contrasts", SITES, "--json") == 0
    registered = json.loads(capsys.readouterr().out)
    assert registered["state"] == "before"
    assert len(registered["places"]) == 6
    assert all(place["groups"] for place in registered["places"].values())
    assert run("study", "register", trained, "--digest", registered["digest"]) == 0
    assert "before held-out results were opened" in capsys.readouterr().out

    assert run("study", "register", trained, "--show") == 2  # averages are still to be made
    assert "checkwise study derive" in capsys.readouterr().err
    assert OPENED not in [entry["kind"] for entry in read_log(trained)]
    data = {"traps": str(trained.parent / "traps.npz")}
    for name in ("deploy-mean-probs", "advised"):
        derive(trained, name, roots=data)

    out = trained.parent / "results.json"
    assert run("study", "register", trained, "--show", "-o", out) == 0
    said = capsys.readouterr().out
    assert "before held-out results were opened" in said
    assert "not worse by 0.50" in said
    assert registered["digest"] in said
    capsys.readouterr()
    digest = ("--digest", registered["digest"])
    assert run("study", "register", trained, "--show", *digest, "--json") == 0
    assert json.loads(capsys.readouterr().out) == json.loads(out.read_text())
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


def test_a_packed_study_lists_every_contrast(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What needs logits stands there without numbers, and with the reason."""
    cohort = tmp_path / "traps"
    shutil.copytree(trained, cohort)
    (cohort / LOG).unlink(missing_ok=True)
    assert run("study", "register", cohort, "--contrasts", SITES) == 0
    pack(cohort, tmp_path / "traps.tar.xz")
    unpack(tmp_path / "traps.tar.xz", tmp_path / "back")
    capsys.readouterr()
    assert run("study", "register", tmp_path / "back", "--show") == 0
    assert "not packed" in capsys.readouterr().out
    assert run("study", "register", tmp_path / "back", "--show", "--json") == 0
    (one,) = json.loads(capsys.readouterr().out)["sets"]
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


def test_refusals(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("study", "register", trained, "--contrasts", SITES, "--rule", "ac-nc") == 2
    assert "--contrasts alone" in capsys.readouterr().err
    assert run("study", "register", trained, "--contrasts", tmp_path / "none.toml") == 2
    assert "file of contrasts" in capsys.readouterr().err
    assert run("study", "register", trained, "--show", "--digest", "0" * 64) == 1
    assert "no registration in the log has this digest" in capsys.readouterr().out
    assert run("study", "register", trained, "--show", "--rule", "ac-nc") == 2
    assert "--show" in capsys.readouterr().err
    assert run("study", "register", trained, "-o", tmp_path / "results.json") == 2
    assert "--show" in capsys.readouterr().err
    assert run("study", "register", trained, "--show", "-o", tmp_path / "results.txt") == 2
    assert ".json" in capsys.readouterr().err


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


def test_an_unfinished_cohort_is_not_opened_unasked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = registered_cohort(tmp_path)
    capsys.readouterr()
    assert run("study", "register", folder, "--show") == 2
    assert "Nothing was opened" in capsys.readouterr().err
    assert [entry["kind"] for entry in read_log(folder)] == ["contrasts"]
    assert run("study", "register", folder, "--show", "--unfinished", "--json") == 0
    (one,) = json.loads(capsys.readouterr().out)["sets"]
    assert one["contrasts"][0]["verdict"] == "not found"
    (found,) = registered_sets(folder)
    assert found.same_plan
    plan = (folder / "cohort.json").read_text()
    (folder / "cohort.json").write_text(plan.replace('"development"', '"evaluation"'))
    assert run("study", "register", folder, "--show", "--unfinished") == 0
    assert "cohort.json has changed since" in capsys.readouterr().out
    (folder / "cohort.json").write_text(plan)
    line = (folder / LOG).read_text().replace("ac-nc", "ac-ne", 1)
    (folder / LOG).write_text(line)
    assert run("study", "register", folder, "--show", "--unfinished") == 2
    assert "changed by hand" in capsys.readouterr().err
    for words in ((), ("--show",)):
        assert run("study", "register", folder, "--digest", found.digest, *words) == 1
        assert "unknown" in capsys.readouterr().out


def test_estimates_alone_can_be_registered(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cohort = tmp_path / "copy"
    shutil.copytree(trained, cohort)
    (cohort / "registrations.jsonl").unlink(missing_ok=True)
    data = {"traps": str(trained.parent / "traps.npz")}
    for name in ("deploy-mean-probs", "advised"):
        derive(cohort, name, roots=data)
    assert run("study", "register", cohort, "--contrasts", DOCS / "taicam-frozen.toml") == 0
    assert "tested in no family, 7 estimates only" in capsys.readouterr().out
    assert run("study", "register", cohort, "--show") == 0
    said = capsys.readouterr().out
    assert "estimate only" in said
    assert "contradicted" not in said


@pytest.mark.parametrize(
    ("name", "value"), [("planned", "x"), ("places", 5), ("code", None), ("plan", 3)]
)
def test_a_log_that_was_forged_is_refused_in_one_line(
    name: str, value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every line is chained as it should be; its content is not what checkwise writes."""
    folder = registered_cohort(tmp_path)
    capsys.readouterr()
    content = json.loads((folder / LOG).read_text())
    (folder / LOG).write_text(json.dumps({**content, name: value}) + "\n")
    assert run("study", "register", folder, "--show", "--unfinished") == 2
    assert f"Expected {name} of a registered set" in capsys.readouterr().err
