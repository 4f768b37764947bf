"""A choice is registered before, late, or not at all; and journals are watched."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from checkwise.study import Cohort, choice_of, method, registrations
from checkwise.study.folder import LOG, OPENED, pack, register, unpack
from checkwise.study.folder.registration import mark_opened, read_log
from checkwise.study.registered import registered_first, same_choice
from checkwise.study.report import write_report
from tests.refusals import refused
from tests.study.cohorts import tiny_runs, write_cohort


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_cohort(tmp_path / "tiny", tiny_runs())


AC_NC = choice_of(method("ac-nc"))


def test_choosing_opens_nothing_and_evaluating_marks_once(folder: Path) -> None:
    cohort = Cohort.open(folder)
    cohort.select("ac-nc")
    assert not (folder / LOG).exists()
    cohort.evaluate("ac-nc")
    cohort.compare()
    Cohort.open(folder).compare()
    assert [entry["kind"] for entry in read_log(folder)] == [OPENED]


def test_reading_whole_held_out_journals_is_opening(folder: Path) -> None:
    cohort = Cohort.open(folder)
    cohort.target_at(next(iter(cohort.runs)), [0])
    assert [entry["kind"] for entry in read_log(folder)] == [OPENED]


def test_before_late_and_not_at_all(folder: Path) -> None:
    register(folder, AC_NC)
    Cohort.open(folder).compare()
    late = choice_of(method("ac-nll"))
    register(folder, late)
    assert registered_first(folder, AC_NC).state == "before"
    assert registered_first(folder, late).state == "late"
    assert registered_first(folder, choice_of(method("ac-ece"))).state == "none"
    assert "after held-out results were opened" in str(registered_first(folder, late))
    assert "exploration" in str(registered_first(folder, choice_of(method("ac-ece"))))


def test_a_choice_is_its_parameters_however_they_are_written(folder: Path) -> None:
    register(folder, choice_of(method("ac-nc", delta_pp="0.50")))
    assert registered_first(folder, choice_of(method("ac-nc", delta_pp=0.5))).state == "before"
    assert registered_first(folder, AC_NC).state == "before"  # the default is 0.5
    for other in ({"delta_pp": "0.6"}, {"q": 1}):
        assert registered_first(folder, choice_of(method("ac-nc", **other))).state == "none"
    assert registered_first(folder, choice_of(method("ac-nc"), worst_domain=True)).state == "none"
    assert registered_first(folder, choice_of(method("ac-nc"), weights="sample")).state == "none"


def test_a_choice_is_also_what_it_is_compared_with_and_at_which_scope(folder: Path) -> None:
    register(folder, AC_NC)
    assert registered_first(folder, choice_of(method("ac-nc"), scope="hparams-acc")).state == "none"
    for other in (method("pure-nll"), method("ac-nll")):
        assert registered_first(folder, choice_of(method("ac-nc"), reference=other)).state == "none"


def test_the_parameters_of_the_reference_are_part_of_the_choice(folder: Path) -> None:
    wide = method("ac-nc", delta_pp="1")
    register(folder, choice_of(method("pure-nll"), reference=method("ac-nc")))
    assert registrations(folder, ["pure-nll"], {}, reference="ac-nc")["pure-nll"].state == "before"
    for asked in ({"delta_pp": "1"}, {"q": 1}):
        found = registrations(folder, ["pure-nll"], asked, reference="ac-nc")["pure-nll"]
        assert found.state == "none"
    register(folder, choice_of(method("ac-nll", delta_pp="1"), reference=wide))
    both = registrations(folder, ["ac-nll"], {"delta_pp": "1.0"}, reference="ac-nc")
    assert both["ac-nll"].state == "before"


def test_an_older_log_without_scope_means_single_runs(folder: Path) -> None:
    older = {
        "rule": "ac-nc",
        "params": {"delta_pp": "1/2", "eta": 1e-12, "pareto": False, "q": "inf"},
        "weights": "equal",
        "worst_domain": False,
        "reference": "source-acc",
        "metrics": ["target_nll"],
    }
    register(folder, older)
    assert registered_first(folder, AC_NC).state == "before"
    assert registered_first(folder, {**AC_NC, "scope": "hparams-ac"}).state == "none"


def test_metrics_that_were_not_registered_are_named(folder: Path) -> None:
    register(folder, {**AC_NC, "metrics": ["target_nll"]})
    register(folder, {**AC_NC, "metrics": ["target_ece"]})
    Cohort.open(folder).compare()
    register(folder, {**AC_NC, "metrics": ["target_brier"]})
    shown = ["target_nll", "target_ece", "target_brier", "gap_pp"]
    found = registered_first(folder, AC_NC, metrics=shown)
    assert found.state == "before"
    assert found.unregistered == ("target_brier", "gap_pp")
    assert "; target_brier and gap_pp were not registered with it." in str(found)
    alone = registered_first(folder, AC_NC, metrics=["target_nll", "target_brier"])
    assert "; target_brier was not registered with it." in str(alone)
    assert "not registered" not in str(registered_first(folder, AC_NC, metrics=["target_nll"]))


def test_what_is_registered_in_an_unpacked_copy_is_late(tmp_path: Path) -> None:
    finished = [each for each in tiny_runs() if each.finished]
    cohort = write_cohort(tmp_path / "finished", finished)
    register(cohort, AC_NC)
    pack(cohort, tmp_path / "finished.tar.xz")
    unpack(tmp_path / "finished.tar.xz", tmp_path / "copy")
    assert registered_first(tmp_path / "copy", AC_NC).state == "before"
    late = choice_of(method("ac-nll"))
    register(tmp_path / "copy", late)
    assert registered_first(tmp_path / "copy", late).state == "late"


def test_what_cannot_be_chosen_cannot_be_registered() -> None:
    with refused("unsupported"):
        choice_of(method("ac-nc"), weights="sample", worst_domain=True)


def test_journals_that_changed_or_came_later_are_counted(folder: Path) -> None:
    register(folder, AC_NC)
    assert "source journals unchanged" in str(registered_first(folder, AC_NC))
    journals = sorted((folder / "runs").glob("*/source.jsonl"))
    journals[0].write_text(journals[0].read_text() + "\n")
    journals[1].unlink()
    found = registered_first(folder, AC_NC)
    assert (found.changed, found.added) == (2, 0)
    assert "2 source journals changed or missing since" in str(found)


def test_many_registrations_are_told(folder: Path) -> None:
    for rule in ("ac-nc", "ac-nll", "ac-ece", "ac-nc", "ac-nll"):
        register(folder, choice_of(method(rule)))
    assert registered_first(folder, AC_NC).others == 2  # ac-nll, registered twice, is one choice


def test_a_log_changed_by_hand_is_noticed(folder: Path) -> None:
    register(folder, choice_of(method("ac-nll")))
    Cohort.open(folder).compare()
    register(folder, AC_NC)
    path = folder / LOG
    lines = path.read_text().splitlines(keepends=True)
    for tampered in (
        lines[:1] + lines[2:],  # the mark of opening removed
        [lines[0], lines[2], lines[1]],
        [lines[0].replace("ac-nll", "ac-nc"), *lines[1:]],
    ):
        path.write_text("".join(tampered))
        assert registered_first(folder, AC_NC).state == "unknown"
        with refused("damaged"):
            register(folder, AC_NC)


def test_a_folder_that_is_no_cohort_is_left_alone(tmp_path: Path) -> None:
    mark_opened(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_page_tells_too(folder: Path, tmp_path: Path) -> None:
    register(folder, AC_NC)
    page = write_report(folder, tmp_path / "r.html").read_text("utf-8")
    assert "before held-out results were opened; source journals unchanged since." in page
    page = write_report(folder, tmp_path / "r.html", delta_pp="1").read_text("utf-8")
    assert "ac-nc: not registered before" in page
    page = write_report(folder, tmp_path / "r.html", reference="pure-nll").read_text("utf-8")
    assert "ac-nc: not registered before" in page
    register(folder, {**choice_of(method("ac-nll")), "metrics": ["target_nll"]})
    page = write_report(folder, tmp_path / "r.html", rules=["ac-nll"]).read_text("utf-8")
    assert "target_accuracy, target_ece and target_cwece were not registered with it." in page


def test_the_log_can_be_read_by_others(folder: Path) -> None:
    register(folder, AC_NC)
    assert stat.S_IMODE((folder / LOG).stat().st_mode) & stat.S_IRUSR
    json.loads((folder / LOG).read_text())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"weights": {"photo": "2", "art": "1"}}, {"weights": {"art": "1.0", "photo": "2.0"}}),
        ({"objectives": ("nll", "cwece")}, {"objectives": ("cwece", "nll")}),
        ({"delta_pp": "1"}, {"delta_pp": "1.00"}),
    ],
)
def test_settings_that_mean_the_same_are_one_choice(
    one: dict[str, object], other: dict[str, object]
) -> None:
    choices = []
    for settings in (one, other):
        params = {name: value for name, value in settings.items() if name != "weights"}
        row = method("ac", **{"objectives": ("nll",), **params})
        weights = {"weights": settings["weights"]} if "weights" in settings else {}
        choices.append(choice_of(row, **weights))  # type: ignore[arg-type]
    assert same_choice(*choices)
    assert not same_choice(choices[0], choice_of(method("ac", objectives=("ece",))))
