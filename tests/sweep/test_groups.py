"""A small sweep with groups, places, two validation sets and draws: what it trains and records."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState

import checkwise as cw
from checkwise.cli import main
from checkwise.store import read_run
from checkwise.store.run_predictions import VALIDATIONS
from checkwise.study import Cohort
from checkwise.study.data import draw_seed, seed_hash, source_splits
from checkwise.study.folder import verify
from checkwise.study.sweep import Job, Study, inner_study, make_cohort, open_spec, plan, work
from checkwise.study.sweep.planning import run_config
from checkwise.study.sweep.study_file import parse_study
from checkwise.study.train import prepare, train_run
from tests.refusals import refused
from tests.runs import contents

STUDY: dict[str, Any] = {
    "name": "traps",
    "role": "development",
    "data": {
        "dataset": "Features",
        "root": "traps.npz",
        "domain_by": "region",
        "groups": "site",
        "places": 2,
        "held_out": "each",
    },
    "network": {"kind": "mlp", "hidden": 8},
    "runs": {"algorithms": ["ERM"], "draws": 1},
    "training": {"steps": 41, "record_every": 10, "split_by": "both"},
    "records": {"logits": "all"},
    "hparams": {"lr": {"low": 1e-2, "high": 1e-1}, "batch_size": 8},
}


def _traps(folder: Path) -> None:
    random = np.random.default_rng(1)
    site = np.repeat(np.arange(16), random.integers(10, 30, 16))
    label = random.integers(0, 3, len(site))
    shift = random.normal(size=(16, 6))
    x = np.eye(3, 6)[label] * 2 + 0.5 * shift[site] + random.normal(size=(len(site), 6))
    region = np.where(site < 8, "north", "south")
    np.savez(folder / "traps.npz", features=x.astype("f4"), label=label, region=region, site=site)


def _study(folder: Path, **changes: dict[str, Any]) -> Study:
    values = {
        name: {**value, **changes[name]} if name in changes else value
        for name, value in STUDY.items()
    }
    return parse_study(values, file="traps.toml", folder=folder)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traps")
    _traps(folder)
    roots = {"traps": str(folder / "traps.npz")}
    cohort = make_cohort(_study(folder), folder / "out", roots)
    worked = work(Job(str(cohort.path), "", roots))
    assert (worked.trained, worked.failed) == (4, 0)
    assert not verify(cohort.path)
    return cohort.path


def test_every_place_is_held_out_whole(trained: Path) -> None:
    data = open_spec(_study(trained.parent).data[0], {})
    cohort = Cohort.open(trained)
    assert {key.held_out for key in cohort.runs} == {(name,) for name in data.targets}
    for key in cohort.runs:
        place = data.places[data.target_index(key.held_out[0])]
        journal = cohort.runs.folder(key) / "heldout" / f"{place.name}.jsonl"
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        assert {(line["n"], line["split"]) for line in lines} == {(len(place.rows), "all")}
        saved = np.load(
            cohort.runs.folder(key) / "predictions/heldout" / place.name / "step-000040.npz"
        )
        assert np.array_equal(saved[f"{place.name}.labels"], data.y[place.domain][place.rows])
        assert np.array_equal(saved[f"{place.name}.groups"], data.groups[place.domain][place.rows])


def test_both_validation_sets_are_recorded_as_the_saved_logits_say(trained: Path) -> None:
    data = open_spec(_study(trained.parent).data[0], {})
    cohort = Cohort.open(trained)
    for key in cohort.runs:
        folder = cohort.runs.folder(key)
        parts = source_splits(
            data, key.held_out, split_by="both", trial_seed=key.trial_seed, holdout=0.2
        )
        for validation in VALIDATIONS:
            run = read_run(folder).trajectory(validation)
            logits = read_run(folder).predictions(validation).logits(40)
            assert run.examples is not None
            assert run.examples.groups is not None
            for part in parts:
                name, rows = data.domains[part.domain], part.validation[validation]
                z, y = logits[name]
                assert np.array_equal(y, data.y[part.domain][rows])
                at = run.domains.index(name)
                assert run.values["accuracy"][-1, at] == np.mean(z.argmax(1) == y)
                assert np.array_equal(run.examples.groups[at], data.groups[part.domain][rows])
        split = json.loads((folder / "run.json").read_text())["split"]
        assert split["sources"]["north"]["train"] == len(parts[0].train)


def test_every_run_has_its_own_seeds_and_learning_rate(trained: Path) -> None:
    cohort = Cohort.open(trained)
    assert len({key.trial_seed for key in cohort.runs}) == len(cohort.runs) == 4
    rates = set()
    for key in cohort.runs:
        assert key.trial_seed == draw_seed("traps", "ERM", key.held_out, 1)
        config = json.loads((cohort.runs.folder(key) / "run.json").read_text())["config"]
        random = RandomState(seed_hash(seed_hash(1, key.trial_seed), "lr"))
        by_hand = 10 ** (-2 + random.uniform(0, 1))
        assert config["hparams"]["lr"] == pytest.approx(by_hand, rel=1e-12)
        rates.add(config["hparams"]["lr"])
    assert len(rates) == 4


def test_weights_stay_that_either_validation_set_may_choose(trained: Path) -> None:
    cohort = Cohort.open(trained)
    for key in cohort.runs:
        folder = cohort.runs.folder(key)
        for validation in VALIDATIONS:
            chosen = cw.select(read_run(folder).trajectory(validation), "ac-nc", delta_pp="1.0")
            assert chosen.path is not None
            assert Path(chosen.path).is_file()


def test_rules_choose_by_either_validation_set(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cohort = Cohort.open(trained)
    by_hand: dict[str, list[int]] = {}
    for validation in VALIDATIONS:
        runs = cw.load_runs(trained, validation=validation)
        by_hand[validation] = sorted(cw.select(run, "source-acc").step for run in runs.values())
        frame = cohort.select("source-acc", validation=validation)
        assert sorted(frame["step"]) == by_hand[validation]
    words = ["--rule", "source-acc", "--validation", "groups", "--json"]
    with pytest.raises(SystemExit):
        main(["select", str(trained), *words])
    printed = json.loads(capsys.readouterr().out)["runs"]
    assert sorted(run["selection"]["step"] for run in printed) == by_hand["groups"]


def test_one_cohort_compares_the_two_validations_run_by_run(trained: Path, tmp_path: Path) -> None:
    copy = tmp_path / "out"
    shutil.copytree(trained, copy)
    cohort = Cohort.open(copy)
    (table,) = cohort.differences(["source-acc@groups"], "source-acc", metrics=["target_nll"])
    expected = []
    for key in cohort.usable:
        folder = cohort.runs.folder(key)
        nll = {line["step"]: line["nll"] for line in cohort_lines(folder, key.held_out[0])}
        steps = [
            cw.select(read_run(folder).trajectory(v), "source-acc").step
            for v in ("groups", "examples")
        ]
        expected.append(nll[steps[0]] - nll[steps[1]])
    assert sorted(np.ravel(table.values)) == pytest.approx(sorted(expected))
    every = cohort.compare(["source-acc", "ac-nc"], validation="groups", metrics=["target_nll"])
    assert set(every["rule"]) == {"ac-nc@groups"}
    assert set(every["reference"]) == {"source-acc@groups"}


def cohort_lines(folder: Path, place: str) -> list[dict[str, Any]]:
    text = (folder / "heldout" / f"{place}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_a_temperature_is_fitted_on_the_groups_that_a_rule_chose_by(trained: Path) -> None:
    cohort = Cohort.open(trained)
    frame = cohort.select("source-acc@groups+ts")
    assert not frame["in_sample"].any()
    for row in frame.to_dict("records"):
        key = next(key for key in cohort.runs if key.trial_seed == row["trial_seed"])
        logits = read_run(cohort.runs.folder(key)).predictions("groups").logits(row["step"])
        z = np.concatenate([z for z, _ in logits.values()]) / row["temperature"]
        y = np.concatenate([y for _, y in logits.values()])
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        # At the best temperature the mean logit of the labels is that expected under p.
        assert z[np.arange(len(y)), y].mean() == pytest.approx((p * z).sum(1).mean(), abs=1e-4)


def test_a_killed_run_with_two_validation_sets_ends_the_same(tmp_path: Path) -> None:
    _traps(tmp_path)
    study = _study(tmp_path)
    ready = prepare(open_spec(study.data[0], {}), study.network)
    config = run_config(study, plan(study, {})[1], ready)

    def train(folder: Path, stop: Callable[[], bool]) -> str:
        folder.mkdir(exist_ok=True)
        return train_run(folder, config, ready, stop=stop)

    assert train(tmp_path / "once", lambda: False) == "finished"
    updates = iter([False] * 24 + [True])
    assert train(tmp_path / "twice", lambda: next(updates)) == "stopped"
    assert train(tmp_path / "twice", lambda: False) == "finished"
    assert contents(tmp_path / "once") == contents(tmp_path / "twice")


def test_draws_do_not_depend_on_what_else_is_trained(tmp_path: Path) -> None:
    _traps(tmp_path)
    study = _study(tmp_path, runs={"algorithms": ["ERM", "VREx"], "draws": 3})
    keys = plan(study, {})
    assert len(keys) == len({key.trial_seed for key in keys}) == 2 * 4 * 3
    fewer = study.narrowed(algorithms=("VREx",), hparams_seeds=(2,), held_out=("south-place-1",))
    assert plan(fewer, {}) == [
        key
        for key in keys
        if (key.algorithm, key.hparams_seed, key.held_out) == ("VREx", 2, ("south-place-1",))
    ]
    with refused("unsupported"):
        study.narrowed(trial_seeds=(0,))


def test_a_study_with_all_of_it_comes_back_from_its_plan(tmp_path: Path) -> None:
    study = _study(tmp_path, data={"classes": ["0", "2"]})
    plain = json.loads(json.dumps(study.as_dict()))
    assert plain["data"][0]["places"] == 2
    assert plain["hparams"]["lr"] == {"low": 1e-2, "high": 1e-1}
    without_place = replace(study, data=tuple(replace(spec, root=None) for spec in study.data))
    assert Study.from_dict(plain) == without_place


def test_class_subsets_are_data_sets_of_their_own(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    domain, label = np.repeat([0, 1], 60), np.tile(np.arange(6), 20)
    np.savez(
        tmp_path / "all.npz", features=random.normal(size=(120, 4)), label=label, domain=domain
    )
    values = {
        **STUDY,
        "data": {"dataset": "Features", "name": "All", "class_subsets": 3, "held_out": "each"},
    }
    values["training"] = {"steps": 1, "record_every": 1}
    study = parse_study(values, file="all.toml", folder=tmp_path)
    roots = {"All": str(tmp_path / "all.npz")}
    assert [spec.name for spec in study.data] == ["All-1", "All-2", "All-3"]
    opened = [open_spec(spec, roots) for spec in study.data]
    assert [data.classes for data in opened] == [("0", "3"), ("1", "4"), ("2", "5")]
    assert [data.sizes for data in opened] == [(20, 20)] * 3
    assert len(plan(study, roots)) == 6
    assert Study.from_dict(json.loads(json.dumps(study.as_dict()))) == study


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"runs": {"trial_seeds": [0]}}, "value: `draws`"),
        ({"data": {"groups": ""}}, "value: `places` of … `groups`"),
        ({"data": {"places": 0}}, "value: `places` of … at least 1 … 0"),
        ({"data": {"dataset": "PACS"}}, "value: `domain_by` of"),
        ({"data": {"classes": ["a", "a"]}}, "value"),
        ({"data": {"classes": ["a"], "class_subsets": 2}}, "value: beside `classes`"),
        ({"training": {"split_by": "sites"}}, "value"),
        ({"hparams": {"lr": {"low": 1e-2, "high": 1e-3}}}, "value: 0"),
        ({"hparams": {"lr": {"low": 1e-3}}}, "value"),
        ({"hparams": {"lr": [1e-3, 1e-2]}}, "value"),
    ],
)
def test_what_does_not_fit_is_named(
    tmp_path: Path, changes: dict[str, dict[str, Any]], message: str
) -> None:
    with refused(message):
        _study(tmp_path, **changes)


def test_validation_by_groups_needs_them(tmp_path: Path) -> None:
    data = {name: STUDY["data"][name] for name in ("dataset", "root", "domain_by", "held_out")}
    with refused("missing: `groups` … split_by … 'both'"):
        parse_study({**STUDY, "data": data}, file="traps.toml", folder=tmp_path)


def test_runs_without_a_second_validation_set_say_so(trained: Path, tmp_path: Path) -> None:
    _traps(tmp_path)
    study = _study(tmp_path, training={"split_by": "groups"})
    ready = prepare(open_spec(study.data[0], {}), study.network)
    train_run(tmp_path, run_config(study, plan(study, {})[0], ready), ready)
    own = read_run(tmp_path).trajectory()
    same = read_run(tmp_path).trajectory("groups")
    assert np.array_equal(own.values["nll"], same.values["nll"])
    with refused("unsupported: whole groups"):
        read_run(tmp_path).trajectory("examples")
    table = tmp_path / "run.csv"
    table.write_text("step,accuracy\n1,0.5\n")
    with refused("unsupported: --validation … groups"):
        cw.load(table, validation="groups")
    with refused("unknown: examples, groups … 'sites'"):
        Cohort.open(trained).select("source-acc@sites")
    with refused("unsupported: swad"):
        Cohort.open(trained).compare(["swad@groups"])


def test_leaving_one_domain_out_refuses_places_and_draws(tmp_path: Path) -> None:
    _traps(tmp_path)
    with refused("unsupported: `draws`"):
        inner_study(_study(tmp_path), {})
    seeds = replace(_study(tmp_path), draws=None, hparams_seeds=(0,), trial_seeds=(0,))
    with refused("unsupported: `places`"):
        inner_study(seeds, {})
