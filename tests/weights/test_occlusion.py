"""Occlusion of a held-out image under two real checkpoints, against the run's own records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from checkwise.cli import main
from checkwise.study.figures import occlusion
from checkwise.study.figures.occlusion import ImageCase, image_case
from checkwise.study.folder import OPENED, open_cohort, read_lines
from checkwise.study.heldout import Targets
from tests.refusals import refused
from tests.weights.cohorts import copied

STEPS = {"early": 13, "late": 91}


def case_of(cohort: Path, **options: int) -> ImageCase:
    record = open_cohort(cohort)
    return image_case(record, next(iter(record.runs)), STEPS, {}, **options)


def test_a_case_is_what_the_journals_say(cohort: Path, tmp_path: Path) -> None:
    path = copied(cohort, tmp_path)
    case = case_of(path)
    assert [line.content["kind"] for line in read_lines(path)] == [OPENED]
    folder = next(iter(open_cohort(path).runs.values()))
    journal = Targets(folder, (case.domain,)).journals()[case.domain]
    for name, step in STEPS.items():
        examples = case.predictions[name].examples
        at = journal["step"].tolist().index(step)
        assert examples.correct.sum() == journal["correct"][at]
        assert examples.nll.mean() == pytest.approx(journal["nll"][at], rel=1e-6)
    losses = [case.predictions[name].examples.nll for name in STEPS]
    assert case.row == np.abs(losses[0] - losses[1]).argmax()


def test_the_model_of_a_case_gives_the_evaluated_logits(cohort: Path, tmp_path: Path) -> None:
    case = case_of(copied(cohort, tmp_path), row=3)
    for name, predict in case.predict.items():
        logits = predict(case.image[None])[0]
        np.testing.assert_allclose(logits, case.predictions[name].logits[3], rtol=1e-4, atol=1e-5)
    assert case.exemplar_domain != case.domain
    assert case.exemplar is not None
    assert case.exemplar.shape == case.pixels.shape


def test_maps_have_a_value_for_every_patch(cohort: Path, tmp_path: Path) -> None:
    case = case_of(copied(cohort, tmp_path))
    occlusions = occlusion.case_facts(case)
    for name, facts in occlusions.items():
        assert facts.confidence.shape == facts.nll.shape == (4, 4)
        examples = case.predictions[name].examples
        assert facts.top[0][1] == pytest.approx(examples.confidence[case.row], rel=1e-4)
        of = [int(np.ceil(c * 15)) for c in examples.confidence]
        same = [i for i, b in enumerate(of) if b == of[case.row]]
        gap = np.mean([examples.confidence[i] - examples.correct[i] for i in same])
        assert facts.bin_gap == pytest.approx(abs(gap), rel=1e-6)
    figure = occlusion.draw_case(case, occlusions)
    assert len(figure.axes) == 2 * 7  # five panels and two colour bars for each checkpoint


def test_what_cannot_be_shown_is_refused_before_anything_is_opened(
    cohort: Path, tmp_path: Path
) -> None:
    path = copied(cohort, tmp_path)
    record = open_cohort(path)
    with refused("missing: 14"):
        image_case(record, next(iter(record.runs)), {"early": 14}, {})
    assert not read_lines(path)
    with refused("value: example … 0"):
        case_of(path, row=10**6)


def test_the_command_writes_the_figure(cohort: Path, tmp_path: Path) -> None:
    path = copied(cohort, tmp_path)
    arguments = ["study", "report", str(path), "--figures", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--only", "occlusion", "--rules", "pure-nll"])
    assert stop.value.code == 0
    written = {file.name for file in (tmp_path / "out").iterdir()}
    assert written == {"occlusion.pdf", "occlusion.png"}
