"""A dry run refuses the domain names that the sweep would refuse, and reads no example for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from checkwise.cli import main
from checkwise.sweep.lodo import inner_study
from checkwise.sweep.study_file import read_study
from tests.sweep.studies import write_tiny

EACH = ('held_out = ["0", "75"]', 'held_out = "each"')
ZOO = ('dataset = "RotatedMNIST"', 'dataset = "ImageFolder"\nname = "Zoo"')


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
            Image.new("RGB", (4, 4)).save(tmp_path / "Zoo" / domain / kind / "1.png")
    return tmp_path / "Zoo"


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    return int(caught.value.code or 0), captured.out, captured.err


def both(capsys: pytest.CaptureFixture[str], out: Path, *words: object) -> str:
    """What the dry run and the sweep complain of; it has to be the same."""
    code, printed, complaint = call(capsys, "sweep", *words, "--dry-run")
    assert (code, printed) == (2, "")
    assert call(capsys, "sweep", *words, "--out", out) == (2, "", complaint)
    assert not out.exists(), "a cohort that cannot be trained was planned"
    return complaint


def test_a_wrong_name_in_the_study_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_tiny(tmp_path, ('["0", "75"]', '["0", ["15", "57"]]'))
    complaint = both(capsys, tmp_path / "out", study)
    assert "Expected a domain of RotatedMNIST, but got '57'" in complaint
    assert "0, 15, 30, 45, 60, 75" in complaint


def test_a_wrong_name_on_the_command_line_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_tiny(tmp_path, EACH)
    complaint = both(capsys, tmp_path / "out", study, "--held-out", "Artt")
    assert "Expected a domain of RotatedMNIST, but got 'Artt'" in complaint
    code, _, complaint = call(
        capsys, "train", study, "--held-out", "Artt", "--out", tmp_path / "run"
    )
    assert code == 2
    assert "but got 'Artt'" in complaint


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
    root = (
        ("record_every", "record_every")
        if how != "file"
        else ("held_out", 'root = "Zoo"\nheld_out')
    )
    wrong = write_tiny(tmp_path, ZOO, ('["0", "75"]', '["Artt"]'), root)
    complaint = both(capsys, tmp_path / "out", wrong, *words)
    assert "Expected a domain of Zoo, but got 'Artt': choose from Art, Clipart, Photo." in complaint
    each = write_tiny(tmp_path, ZOO, EACH, root)
    code, printed, _ = call(capsys, "sweep", each, *words, "--dry-run")
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
    study = write_tiny(tmp_path, features, ('["0", "75"]', '["Artt"]'))
    complaint = both(capsys, tmp_path / "out", study, "--data", f"Zoo={file}")
    assert "Expected a domain of Zoo, but got 'Artt': choose from Art, Photo." in complaint


@pytest.mark.parametrize("words", [(), ("--data", "Zoo=nowhere")])
def test_names_of_data_that_are_not_there_are_not_checked(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_tiny(tmp_path, ZOO, ('["0", "75"]', '["Artt"]'))
    code, printed, _ = call(capsys, "sweep", study, "--dry-run", *words)
    assert code == 0
    assert "Held-out names not checked: Zoo not found.\n" in printed
    assert call(capsys, "sweep", study, "--out", tmp_path / "out", *words)[0] == 2
    assert not (tmp_path / "out").exists()


def test_a_place_for_other_data_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_tiny(tmp_path, ZOO)
    complaint = both(capsys, tmp_path / "out", study, "--data", "zoo=here")
    assert "Expected --data for Zoo, but got 'zoo'" in complaint


def test_inner_runs_are_planned_without_decoding(
    zoo: Path, own_cache: Path, tmp_path: Path
) -> None:
    study = read_study(write_tiny(tmp_path, ZOO, EACH))
    inner = inner_study(study, {"Zoo": str(zoo)})
    assert inner.data[0].held_out == (("Art", "Clipart"), ("Art", "Photo"), ("Clipart", "Photo"))
    assert not own_cache.exists()
