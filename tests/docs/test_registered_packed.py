"""What was registered, read from the packed cohorts and the kept outcomes by the library itself."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from checkwise.cli import main
from checkwise.study import ContrastResult
from checkwise.study.contrast_set import PlannedContrast, parse_contrasts
from checkwise.study.contrast_verdicts import estimate, judged
from checkwise.study.folder import CONTRASTS, LOG, unpack
from studies.page import DATA
from tests.docs.test_pages import builder

REGISTERED = ("taicam-frozen", "taicam-sites")


def has_contrasts(archive: Path) -> bool:
    with tarfile.open(archive) as packed:
        if LOG not in packed.getnames():
            return False
        log = packed.extractfile(LOG)
        assert log is not None
        return any(json.loads(line)["kind"] == CONTRASTS for line in log)


def test_every_packed_registration_is_published() -> None:
    archives = sorted(DATA.glob("*.tar.xz"))
    assert tuple(a.name.removesuffix(".tar.xz") for a in archives if has_contrasts(a)) == REGISTERED
    assert all((DATA / f"registered-{name}.json").is_file() for name in REGISTERED)


@pytest.mark.parametrize("name", REGISTERED)
def test_show_lists_what_is_published(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every contrast; what journals alone give has the published numbers and verdict."""
    unpack(DATA / f"{name}.tar.xz", tmp_path / name)
    with pytest.raises(SystemExit) as stop:
        main(["study", "register", str(tmp_path / name), "--show", "--json"])
    assert stop.value.code == 0
    (shown,) = json.loads(capsys.readouterr().out)["sets"]
    published = builder("registered_table").read(name)
    assert shown["digest"] == published["digest"]
    assert [one["name"] for one in shown["contrasts"]] == list(names(published))
    for one in shown["contrasts"]:
        same_as_published(one, names(published)[one["name"]])
    assert {one["verdict"] for one in shown["contrasts"]} >= {None, "estimate only"}


def names(published: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in published["contrasts"]}


def same_as_published(one: dict[str, Any], published: dict[str, Any]) -> None:
    for fixed in ("rule", "reference", "metric", "hoped", "family", "at"):
        assert one[fixed] == published[fixed], one["name"]
    if one["verdict"] is None:
        assert one["reason"]
        assert one["mean"] is None
        return
    assert one["verdict"] == published["verdict"]
    for number in ("mean", "low", "high", "p", "detectable", "new_low", "new_high"):
        expected = published[number]
        assert one[number] == (expected and pytest.approx(expected, rel=1e-9)), one["name"]


@pytest.mark.parametrize("name", REGISTERED)
def test_kept_outcomes_give_the_published_verdicts(name: str, tmp_path: Path) -> None:
    """The library's estimates, Holm's correction and verdicts, from the outcomes of every run."""
    unpack(DATA / f"{name}.tar.xz", tmp_path / name)
    lines = map(json.loads, (tmp_path / name / LOG).read_text().splitlines())
    (registered,) = [line["contrasts"] for line in lines if line["kind"] == CONTRASTS]
    kept = builder("outcomes").read(name)
    results = judged([of_kept(one, kept) for one in parse_contrasts(registered, LOG).contrasts])
    published = names(builder("registered_table").read(name))
    assert [one.planned.name for one in results] == list(published)
    for one in results:
        each = published[one.planned.name]
        assert one.verdict == each["verdict"], one.planned.name
        assert not one.reason
        assert one.mean == pytest.approx(each["mean"], abs=1e-5)
        if each["holm"] is not None:
            assert one.holm == pytest.approx(each["holm"], rel=1e-3)


def of_kept(one: PlannedContrast, kept: Any) -> ContrastResult:
    some = None
    if one.where is not None:
        some = kept.temperature(one.where.rule) < one.where.temperature_below
    changes = kept.differences(one.rule, one.reference, one.metrics, some)
    return estimate(one, changes, len(kept.keys) if some is None else int(some.sum()))
