"""``average_within_pp``: the callbacks keep the members of an average, and deploy finds them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import checkwise as cw
from checkwise.cli import app
from checkwise.integrations.callbacks import Options
from tests.refusals import refused
from tests.requirements import package

RISING = [0.1, 0.5, 0.6, 0.8, 0.78, 0.81, 0.7, 0.8, 0.81]


def members_after_the_fact(run: cw.Trajectory, delta_pp: float) -> list[int]:
    """By hand: within the tolerance of the best mean accuracy over domains."""
    mean = run.values["accuracy"].mean(axis=1)
    return [int(s) for s in run.steps[mean >= mean.max() - delta_pp / 100 - 1e-12]]


def deploy_as_told(sentence: str, out: Path) -> dict[str, Any]:
    """Run the command that a callback prints."""
    command = sentence.split("`")[1].replace("MODEL", shlex.quote(str(out)))
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    from checkwise.deployed import load

    return dict(load(out).info)


def test_lightning_keeps_the_members_and_says_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package("lightning")
    from checkwise.integrations.lightning import ReliabilityCheckpoint
    from tests.integrations.lightning_models import fit

    folder = tmp_path / "my run"
    choosing: Any = ReliabilityCheckpoint(
        "source-acc", domains=["a", "b"], dirpath=folder, average_within_pp=6
    )
    _, module = fit(tmp_path, choosing, max_epochs=6)
    whole = cw.Trajectory.from_predictions(module.predictions())
    expected = members_after_the_fact(whole, 6)
    assert len(expected) > 2
    assert list(choosing.members()) == expected
    assert choosing.members(2) == (expected[0], expected[-1])
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "for an average" in line]
    info = deploy_as_told(said, tmp_path / "model")
    assert (info["kind"], info["steps"]) == ("ensemble", expected)


def test_lightning_without_the_argument_says_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package("lightning")
    from checkwise.integrations.lightning import ReliabilityCheckpoint
    from tests.integrations.lightning_models import fit

    fit(tmp_path, ReliabilityCheckpoint(domains=["a", "b"], dirpath=tmp_path), max_epochs=1)
    assert "for an average" not in capsys.readouterr().err


@pytest.mark.parametrize("worst_domain", [False, True])
def test_transformers_keeps_the_members_and_says_which(
    tmp_path: Path, worst_domain: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    package("transformers")
    package("accelerate")
    from checkwise.integrations.transformers import ReliabilityCallback
    from tests.integrations import transformers_runs as runs

    table, labels = runs.script(RISING, n=60)
    sets = {"art": slice(0, 20), "photo": slice(20, 60)}
    callback = ReliabilityCallback(
        rule="source-acc", average_within_pp="6", worst_domain=worst_domain
    )
    args = runs.arguments(tmp_path / "out", steps=16)
    runs.scripted_trainer(args, table, labels, callback, sets=sets).train()
    whole = cw.Trajectory.from_predictions(runs.outputs_of(table, labels, sets=sets))
    values = whole.values["accuracy"]
    judged = values.min(axis=1) if worst_domain else values.mean(axis=1)
    expected = [int(s) for s in whole.steps[judged >= judged.max() - 0.06 - 1e-12]]
    assert len(expected) > 1
    assert list(callback.members()) == expected
    assert set(expected) <= set(runs.steps_on_disk(tmp_path / "out"))
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "for an average" in line]
    info = deploy_as_told(said, tmp_path / "model")
    assert (info["kind"], info["steps"]) == (
        "ensemble" if len(expected) > 1 else "single",
        expected,
    )


def test_a_tolerance_that_is_none_is_refused_before_any_training(tmp_path: Path) -> None:
    package("lightning")
    from checkwise.integrations.lightning import ReliabilityCheckpoint

    for wrong in (-1, "one", float("nan")):
        with refused("value: delta_pp"):
            ReliabilityCheckpoint(dirpath=tmp_path, average_within_pp=wrong)


def test_the_sentence_names_the_tolerance() -> None:
    live = cw.LiveSelector("source-acc")
    for step, accuracy in enumerate(np.array([0.5, 0.89, 0.9])):
        live.add(step, {"val": {"accuracy": float(accuracy), "n": 100}})

    def said(within: Any) -> str:
        options = Options(cw.Choice("source-acc"), average_within_pp=within)
        return options.average_of(options.members(live), Path("run"))

    assert "--within-pp 1.0 -o" in said("1.0")
    assert "steps 1 and 2. " in said(1)
    assert "--within-pp 0.5 -o" in said(0.5)
    assert "step 2. " in said(0.5)
