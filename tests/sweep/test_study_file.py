"""A study file is checked where it is read; a refusal names key, values and the nearest name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from checkwise.study.sweep import Study, make_cohort, plan, read_study
from checkwise.study.sweep.study_file import shipped_studies
from tests.refusals import refused
from tests.sweep.studies import write_tiny


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("demo", 30),
        ("demo-quick", 3),
        ("pacs-frozen", 180),
        ("officehome-frozen", 180),
        ("taicam-frozen", 180),
        ("officehome-deduplicated", 72),
        ("pacs-ladder", 28),
        ("officehome-ladder", 28),
        ("pacs-laststage", 20),
        ("pacs-finetuned", 24),
        ("pacs-full", 8),
        ("pacs-resnet50", 108),
        ("digits", 81),
        ("rotated-mnist", 270),
        ("colored-mnist", 135),
        ("paper", 540),
    ],
)
def test_shipped_studies_plan_what_they_promise(name: str, runs: int) -> None:
    study = read_study(name)
    assert study.name == name
    assert len(set(map(str, plan(study, {})))) == runs


def test_a_folder_does_not_hide_the_shipped_study_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("officehome-frozen", "mine"):
        (tmp_path / name).mkdir()
    assert read_study("officehome-frozen").name == "officehome-frozen"
    with refused("unknown: 'mine'"):
        read_study("mine")
    for name in ("nothere", "nothere.toml", "digits.toml"):
        with refused(f"unknown: no file '{name}' … digits … taicam-sites"):
            read_study(name)


def test_shipped_studies_name_no_place_on_any_machine() -> None:
    for path in shipped_studies().values():
        assert "root" not in path.read_text()
        assert "/" not in path.read_text()


def test_a_study_comes_back_from_its_plain_values(tmp_path: Path) -> None:
    study = read_study(write_tiny(tmp_path))
    assert Study.from_dict(study.as_dict()) == study


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('["ERM", "VREx"]', '["ERM", "VRex"]', "value: --plugin FILE … 'VREx'"),
        ('"RotatedMNIST"', '"RotatedMnist"', "value: 'RotatedMNIST'"),
        ("record_every", "record_evry", "value: `record_every` of [training] … add it"),
        ("steps = 5", "steps = 5\nstep = 3", "unknown: 'steps'"),
        ("steps = 5", "steps = 0", "value: at least 1 … 0"),
        ("steps = 5", 'steps = "5"', "value: a whole number"),
        ("steps = 5", f"steps = {10**23}", "value: at most 100,000,000"),
        ("batch_size = 8", f"batch_size = {10**10}", "value"),
        ("record_every = 2", "record_every = 9", "value: `steps`"),
        ("batch_size = 8", "batch_sze = 8", "unknown: 'batch_size'"),
        ("batch_size = 8", "batch_size = 0.5", "value"),
        ("batch_size = 8", "batch_size = [8, 16]", "value: 1"),
        ("batch_size = 8", "batch_size = [0.5]", "value"),
        ('kind = "digits"', 'kind = "digit"', "value: 'digits'"),
        ('kind = "digits"', 'kind = "digits"\nhidden = 3', "unknown: 'hidden'"),
        ('role = "development"', 'role = "test"', "value: development, evaluation"),
        ('held_out = ["0", "75"]', "held_out = []", "value: held_out"),
        ('held_out = ["0", "75"]', 'held_out = ["0", "0"]', "value"),
        ('held_out = ["0", "75"]', 'held_out = [["0", "75"], ["75", "0"]]', "value"),
        ("[runs]", "[runs]\nhparams_seeds = [0, 0]", "value"),
        ("[runs]", "[runs]\ndraws = 0", "value: at least 1 … 0"),
        (
            'dataset = "RotatedMNIST"',
            'dataset = "RotatedMNIST"\nplaces = 0',
            "value: at least 1 … 0",
        ),
        (
            'dataset = "RotatedMNIST"',
            'dataset = "RotatedMNIST"\nclass_subsets = 0',
            "value: at least 1",
        ),
        ("[training]", "[training", "format: TOML"),
        ('name = "tiny"', "", "value: `name`"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, before: str, after: str, message: str) -> None:
    path = write_tiny(tmp_path, (before, after))
    with refused(message) as caught:
        read_study(path)
    assert "tiny.toml" in str(caught.value)


def test_coral_on_a_linear_head_is_refused(tmp_path: Path) -> None:
    changes = (('kind = "digits"', 'kind = "linear"'), ('"VREx"', '"CORAL"'))
    with refused("unsupported: ERM"):
        read_study(write_tiny(tmp_path, *changes))


def test_an_unknown_study_lists_the_shipped_ones() -> None:
    with refused("unknown: 'pacs-frozen'"):
        read_study("pacs-frozn")


def test_a_study_can_be_narrowed() -> None:
    study = read_study("pacs-frozen").narrowed(hparams_seeds=(0,), trial_seeds=(0,))
    assert len(plan(study, {})) == 20
    assert len(plan(study.narrowed(held_out=("photo",)), {})) == 5
    with refused("unknown: 0, 1, 2"):
        read_study("pacs-frozen").narrowed(trial_seeds=(7,))


def test_a_list_gives_each_hyperparameter_seed_its_own_value() -> None:
    study = read_study("pacs-ladder")
    assert Study.from_dict(json.loads(json.dumps(study.as_dict()))) == study
    assert [study.overrides(seed)["lr"] for seed in (0, 4, 6)] == [5e-5, 1e-3, 3e-3]
    assert study.overrides(4)["batch_size"] == 32
    fewer = study.narrowed(hparams_seeds=(6, 1))
    assert [fewer.overrides(seed)["lr"] for seed in (6, 1)] == [3e-3, 1e-4]


def test_each_domain_is_held_out_in_turn_where_asked(tmp_path: Path) -> None:
    path = write_tiny(tmp_path, ('held_out = ["0", "75"]', 'held_out = "each"'))
    keys = plan(read_study(path), {})
    assert {key.held_out for key in keys} == {(a,) for a in ("0", "15", "30", "45", "60", "75")}


def own(root: str) -> tuple[str, str]:
    return 'dataset = "RotatedMNIST"', f'dataset = "ImageFolder"\nroot = "{root}"'


def test_data_of_ones_own_go_by_the_name_of_their_folder(tmp_path: Path) -> None:
    spec = read_study(write_tiny(tmp_path, own("pets/"))).data[0]
    other = read_study(write_tiny(tmp_path, own("../birds"))).data[0]
    assert (spec.name, other.name) == ("pets", "birds")
    assert str(plan(read_study(write_tiny(tmp_path, own("pets"))), {})[0]).startswith("pets-ERM-0")
    named = write_tiny(tmp_path, ('dataset = "RotatedMNIST"', 'dataset = "Features"\nname = "Zoo"'))
    assert read_study(named).data[0].name == "Zoo"
    file = write_tiny(
        tmp_path, ('dataset = "RotatedMNIST"', 'dataset = "Features"\nroot = "zoo.npz"')
    )
    assert read_study(file).data[0].name == "zoo"


def test_data_of_ones_own_without_name_or_place_are_refused(tmp_path: Path) -> None:
    nameless = write_tiny(tmp_path, ('dataset = "RotatedMNIST"', 'dataset = "ImageFolder"'))
    with refused("value: `name` of [data] … add it"):
        read_study(nameless)


def test_a_cohort_planned_under_another_name_says_which(tmp_path: Path) -> None:
    study = read_study(write_tiny(tmp_path, own("pets")))
    old = replace(study, data=(replace(study.data[0], name="ImageFolder"),))
    make_cohort(old, tmp_path / "out", {})
    with refused("differs: 'ImageFolder'"):
        make_cohort(study, tmp_path / "out", {})
    assert make_cohort(old, tmp_path / "out", {}).runs
