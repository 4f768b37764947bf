"""A dry run refuses what the sweep would refuse before training, and reads no example for it."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from checkwise.study.sweep import inner_study, make_cohort, read_study
from tests.commands import call
from tests.sweep.studies import write_tiny

EACH = ('held_out = ["0", "75"]', 'held_out = "each"')
ZOO = ('dataset = "RotatedMNIST"', 'dataset = "ImageFolder"\nname = "Zoo"')
NETWORK = 'kind = "digits"'
BACKBONE = (NETWORK, 'kind = "backbone"')


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHECKWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CHECKWISE_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    for domain in ("Art", "Clipart", "Photo"):
        for kind in ("cat", "dog"):
            (tmp_path / "Zoo" / domain / kind).mkdir(parents=True)
            for number in "123":
                place = tmp_path / "Zoo" / domain / kind / f"{number}.png"
                Image.new("RGB", (4, 4)).save(place)
    return tmp_path / "Zoo"


def both(capsys: pytest.CaptureFixture[str], out: Path, *words: object) -> str:
    """What the dry run and the sweep complain of; it has to be the same."""
    code, printed, complaint = call(capsys, "study", "run", *words, "--dry-run")
    assert (code, printed) == (2, "")
    assert call(capsys, "study", "run", *words, "--out", out) == (2, "", complaint)
    assert not out.exists(), "a cohort that cannot be trained was planned"
    return complaint


ALL_DIGITS = '["0", "15", "30", "45", "60", "75"]'
# What a sweep can refuse before or at the start of training: how to provoke it, what it says.
# Refusals of the study file alone (every key and value of it) are in test_study_file.py: both
# commands read the file with the same function.
REFUSALS: dict[str, tuple[list[tuple[str, str]], tuple[str, ...], str]] = {
    "network for other data": (
        [(NETWORK, 'kind = "mlp"')],
        (),
        "Expected features for the network 'mlp', but got digits in RotatedMNIST",
    ),
    "mlp on images": (
        [ZOO, EACH, (NETWORK, 'kind = "mlp"')],
        ("--data", "Zoo=ZOO"),
        "Expected features for the network 'mlp', but got images in Zoo: use the network backbone",
    ),
    "digits network on images that are not here": (
        [ZOO, ('["0", "75"]', '["Art"]')],
        ("--data", "Zoo=nowhere"),
        "Expected digits for the network 'digits', but got images in Zoo",
    ),
    "unknown backbone": (
        [ZOO, EACH, (NETWORK, 'kind = "backbone"\nbackbone = "lite1"')],
        ("--data", "Zoo=ZOO"),
        "Expected the backbone `lite0`, `resnet50` or `timm:<model>`, but got 'lite1'",
    ),
    "extra that is not installed": (
        [ZOO, EACH, (NETWORK, 'kind = "backbone"\nbackbone = "timm:resnet18"')],
        ("--data", "Zoo=ZOO"),
        "pip install 'checkwise[timm]'",
    ),
    "every domain held out": (
        [('["0", "75"]', f'["0", {ALL_DIGITS}]')],
        (),
        "Expected at least one source domain, but all of 0, 15, 30, 45, 60, 75 are held out",
    ),
    "too few examples for the split": (
        [ZOO, EACH, BACKBONE, ("steps", "holdout = 0.01\nsteps")],
        ("--data", "Zoo=ZOO"),
        "Expected examples on both sides of the split, but got 6 examples",
    ),
    "unknown executor": ([], ("--executor", "cluster"), "Expected an executor among local"),
    "algorithm that the study lacks": ([], ("--algorithm", "IRM"), "Expected algorithms among ERM"),
    "hyperparameters of a seed that the study lacks": (
        [("batch_size = 8", "lr = [1e-3, 2e-3]"), ("[runs]", "[runs]\nhparams_seeds = [0, 1]")],
        ("--hparams-seed", "7"),
        "Expected hparams_seeds among 0, 1, but got 7 for the study tiny",
    ),
    "domain that the data lack": (
        [('["0", "75"]', '["0", ["15", "57"]]')],
        (),
        "but got '57': choose from 0, 15, 30, 45, 60, 75",
    ),
    "domain on the command line": (
        [EACH],
        ("--held-out", "Artt"),
        "Expected a domain of RotatedMNIST, but got 'Artt'",
    ),
    "place for other data": ([ZOO], ("--data", "zoo=here"), "Expected --data for Zoo, but got"),
    "seed that the study lacks": ([], ("--trial-seed", "3"), "Expected trial_seeds among 0"),
    "place without a name": ([], ("--data", "here"), "Expected --data NAME=PATH"),
    "folder of something else": ([], ("--out", "TAKEN"), "holds other files: use another --out"),
    "folder that is a file": ([], ("--out", "TAKEN/note.txt"), "is a file: use another --out"),
    "folder inside a file": ([], ("--out", "TAKEN/note.txt/x"), "is a file: use another --out"),
    "folder of another study": ([], ("--out", "OTHER"), "but got other values of steps"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_dry_run_refuses_what_the_sweep_refuses(
    name: str,
    zoo: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)  # also where it is installed
    monkeypatch.chdir(tmp_path)
    changes, words, said = REFUSALS[name]
    study = write_tiny(tmp_path, *changes)
    taken, other = tmp_path / "taken", tmp_path / "other"
    taken.mkdir()
    (taken / "note.txt").write_text("mine")
    make_cohort(replace(read_study(study), steps=7), other, {"Zoo": str(zoo)})
    places = {"ZOO": zoo, "TAKEN": taken, "OTHER": other}
    given = [re.sub("|".join(places), lambda m: str(places[m[0]]), word) for word in words]
    out = [] if "--out" in words else ["--out", tmp_path / "out"]
    dry = call(capsys, "study", "run", study, *given, *out, "--dry-run")
    assert (dry[0], dry[1]) == (2, "")
    assert said in dry[2]
    if "nowhere" not in "".join(words):
        assert call(capsys, "study", "run", study, *given, *out) == dry
    assert not (tmp_path / "out").exists(), "a cohort that cannot be trained was planned"


def test_a_dry_run_of_a_cohort_that_is_there_is_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_tiny(tmp_path, EACH)
    make_cohort(read_study(study), tmp_path / "out", {})
    assert call(capsys, "study", "run", study, "--out", tmp_path / "out", "--dry-run")[0] == 0


@pytest.mark.parametrize("how", ["option", "environment", "file"])
def test_image_folders_are_listed_and_nothing_is_decoded(
    how: str,
    zoo: Path,
    own_cache: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ["--data", f"Zoo={zoo}"] if how == "option" else []
    if how == "environment":
        monkeypatch.setenv("CHECKWISE_DATA", str(tmp_path))
    root = ("held_out", 'root = "Zoo"\nheld_out' if how == "file" else "held_out")
    wrong = write_tiny(tmp_path, ZOO, BACKBONE, ('["0", "75"]', '["Artt"]'), root)
    complaint = both(capsys, tmp_path / "out", wrong, *words)
    assert "Expected a domain of Zoo, but got 'Artt': choose from Art, Clipart, Photo." in complaint
    each = write_tiny(tmp_path, ZOO, BACKBONE, EACH, root)
    code, printed, _ = call(capsys, "study", "run", each, *words, "--dry-run")
    assert code == 0
    assert "6 runs of 5 updates" in printed
    assert "not checked" not in printed
    assert not own_cache.exists()


def test_a_feature_file_says_its_domains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "zoo.npz"
    labels = np.arange(8) % 2
    kinds = np.array(["Art", "Photo"] * 4)
    np.savez(file, features=np.eye(8, dtype=np.float32), label=labels, domain=kinds)
    features = ('dataset = "RotatedMNIST"', 'dataset = "Features"\nname = "Zoo"')
    head = (NETWORK, 'kind = "mlp"')
    study = write_tiny(tmp_path, features, head, ('["0", "75"]', '["Artt"]'))
    complaint = both(capsys, tmp_path / "out", study, "--data", f"Zoo={file}")
    assert "Expected a domain of Zoo, but got 'Artt': choose from Art, Photo." in complaint


@pytest.mark.parametrize("words", [(), ("--data", "Zoo=nowhere")])
def test_names_of_data_that_are_not_there_are_not_checked(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_tiny(tmp_path, ZOO, BACKBONE, ('["0", "75"]', '["Artt"]'))
    code, printed, _ = call(capsys, "study", "run", study, "--dry-run", *words)
    assert code == 0
    assert "Held-out names not checked: Zoo not found.\n" in printed
    assert call(capsys, "study", "run", study, "--out", tmp_path / "out", *words)[0] == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("seeds", ["draws = 2", "hparams_seeds = [1, 2]"])
def test_a_study_without_the_default_seed_is_estimated(
    seeds: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    algorithms = 'algorithms = ["ERM", "VREx"]'
    study = write_tiny(tmp_path, (algorithms, f"{algorithms}\n{seeds}"))
    code, printed, _ = call(capsys, "study", "run", study, "--dry-run", "--workers", 1)
    assert code == 0
    assert "About " in printed


def test_inner_runs_are_planned_without_decoding(
    zoo: Path, own_cache: Path, tmp_path: Path
) -> None:
    study = read_study(write_tiny(tmp_path, ZOO, EACH))
    inner = inner_study(study, {"Zoo": str(zoo)})
    assert inner.data[0].held_out == (("Art", "Clipart"), ("Art", "Photo"), ("Clipart", "Photo"))
    assert not own_cache.exists()


def test_domains_whose_runs_would_share_a_folder_are_refused_by_both(
    zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (zoo / "Art").rename(zoo / "a b")
    (zoo / "Photo").rename(zoo / "a_b")
    study = write_tiny(tmp_path, ZOO, EACH, BACKBONE)
    words = ("study", "run", study, "--data", f"Zoo={zoo}", "--out", tmp_path / "out")
    dry = call(capsys, *words, "--dry-run")
    assert dry[0] == 2
    assert "would share the folder" in dry[2]
    assert call(capsys, *words) == dry
