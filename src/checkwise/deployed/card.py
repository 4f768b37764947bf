"""``card.md``: what a deployed model is, where it comes from, and what is not promised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from checkwise.deployed.bundle import CALIBRATION, DEPLOYED
from checkwise.deployed.record import Calibration, DeployedModel, Measured
from checkwise.metrics import METRICS
from checkwise.records import groups_of
from checkwise.selection import CALLED, explain
from checkwise.statistics import LEVEL
from checkwise.sure import HEAD, how_sure
from checkwise.words import counted, listed, number, printable

SHOWN: Final = 12  # steps in a sentence
NOT_PROMISED: Final = (
    "The metrics are on validation, which also chose the model and fitted the calibrator: "
    "they flatter it.",
    "On data of another kind the model is usually less accurate and more overconfident than here. "
    "No rule that reads source data alone is best for every target.",
    "The calibrator holds for these weights, this preprocessing and these classes only.",
)


def card_of(model: DeployedModel, calibration: Calibration, info: Mapping[str, Any]) -> str:
    """The whole card."""
    sections = {
        "What this is": _what(model, info),
        "Chosen from what, and how": _chosen(model, info),
        "How sure": _how_sure(model, info),
        "Metrics on validation": _metrics(calibration),
        "Calibration": _calibration(calibration),
        "How to load it": _load(model),
        "What is not promised": "\n".join(f"- {line}" for line in NOT_PROMISED),
    }
    title = (
        f"# {printable(str(info['name']))}, deployed by checkwise {info['versions']['checkwise']}"
    )
    body = "\n\n".join(f"## {head}\n\n{text}" for head, text in sections.items())
    return f"{title}\n\n{body}\n"


def _what(model: DeployedModel, info: Mapping[str, Any]) -> str:
    steps = _steps(model.steps)
    what = {
        "single": f"One checkpoint: step {steps}.",
        "weights-mean": f"One model whose parameters are the mean over {steps}.",
        "ensemble": (
            f"An ensemble: the mean of the probabilities of {steps}. It takes "
            f"{len(model.steps)} times the time and memory of one model."
        ),
    }[model.kind]
    notes = "".join(f"\n- {_sentence(note)}" for note in model.notes)
    places = ", ".join(f"`{place}`" for place in info["members"][:SHOWN])
    more = len(info["members"]) - SHOWN
    beyond = f" and {more} more" if more > 0 else ""
    kept = f"The weights are in {places}{beyond}; `{DEPLOYED}` has the digest of every file."
    return f"{what} {kept}{notes and chr(10)}{notes}"


def _chosen(model: DeployedModel, info: Mapping[str, Any]) -> str:
    selection = model.selection
    if model.kind == "single" and model.steps == (selection.step,):
        return printable(explain(selection))
    tolerance = float(selection.tolerance_pp)
    unit = "point" if tolerance == 1 else "points"
    sets = listed([printable(name) for name in info["domains"][:SHOWN]])
    evaluated = selection.trajectory.evaluated
    mean = "mean " * (len(info["domains"]) > 1)
    gone = f" kept of {evaluated}" if evaluated > info["checkpoints"] else ""
    return (
        f"{counted(len(info['feasible_steps']), 'checkpoint')} of {info['checkpoints']}{gone} are "
        f"within {tolerance:g} {unit} of the best {mean}validation accuracy ({sets}). "
        f"{len(model.steps)} of them are averaged."
    )


def _how_sure(model: DeployedModel, info: Mapping[str, Any]) -> str:
    saturation = model.selection.saturation
    lines = []
    if saturation is not None:
        errors = counted(saturation.errors, "error")
        lines.append(
            f"The best checkpoint makes {errors} in {saturation.examples or 'all'} validation "
            "examples."
        )
    lines += [_chosen_again(model), _bound(model, info)]
    return " ".join(line for line in lines if line) or "Not known: the run has no counts."


def _chosen_again(model: DeployedModel) -> str:
    """How often other validation examples of the same kind lead to the same checkpoint."""
    selection = model.selection
    if model.steps != (selection.step,):
        return ""
    return printable(how_sure(selection).removeprefix(HEAD).strip())


def _bound(model: DeployedModel, info: Mapping[str, Any]) -> str:
    """What is certain about accuracy; of averages about every member."""
    alone, grouped = model.kind == "single", groups_of(model.selection.trajectory) is not None
    stated = info["guarantee"] if alone else model.selection.as_dict()["guarantee"]
    if stated["bound_pp"] is None or (grouped and not alone):  # counts take no heed of groups
        return ""
    bound = stated.get("paired", stated)["bound_pp"]
    whose = "its" if alone else "every member's"
    independent = "groups of validation examples" if grouped else "validation examples"
    above = (
        f"With probability at least {1 - stated['alpha']:g} {whose} population accuracy is at "
        f"most {bound:.2f} points below the best of the run, if {independent} "
        "are independent and the checkpoints do not depend on them."
    )
    return above if alone else f"{above} Nothing is certain about their average."


def _metrics(calibration: Calibration) -> str:
    if not calibration.plain:
        return "Not known: nobody has evaluated this model."
    rows = ["| metric | as trained | calibrated |", "|---|---:|---:|"]
    for name, value in calibration.plain.items():
        title = CALLED.get(name) or METRICS[name].title or name
        after = calibration.after.get(name)
        rows.append(f"| {title} | {_cell(name, value)} | {_cell(name, after) if after else '–'} |")
    return "\n".join(
        [
            *rows,
            "",
            "Means over the validation sets; accuracy and calibration errors are ×100. Soft "
            "ECE and soft CwECE are mean squared gaps between confidence and accuracy, in soft "
            "bins: 1.00 in this table is a gap of 10 points. They are not comparable with ECE and "
            "CwECE, which have hard bins. In brackets "
            f"{100 * LEVEL:g}% intervals over {_resampled(calibration)}, where the metric is a "
            "mean over examples and these are known. The calibrated column is on the examples "
            "that the calibrator was fitted on.",
        ]
    )


def _resampled(calibration: Calibration) -> str:
    """What intervals draw again."""
    if calibration.groups is None:
        return "validation examples"
    return f"{counted(calibration.groups, 'group')} of validation examples, drawn whole"


def _calibration(calibration: Calibration) -> str:
    fitted = calibration.fitted
    if fitted is None:
        return printable(calibration.done)
    scale = "" if fitted.temperature is None else f" T = {fitted.temperature:.4f}."
    lines = [
        calibration.done,
        f"`{fitted.name}` ({fitted.calibrator.summary}), state: {fitted.state}.{scale} Fitted on "
        f"{counted(fitted.n, 'example')} with {counted(fitted.errors, 'error')}; `{CALIBRATION}` "
        "has its parameters.",
        *calibration.notes,
    ]
    return " ".join([*lines, *calibration.elsewhere])


def _load(model: DeployedModel) -> str:
    if model.format == "transformers":
        return (
            "```python\nfrom checkwise.deployed import load\n"
            "from transformers import AutoModelForSequenceClassification as Auto  # or your own\n"
            'model = load("model").pretrained(Auto)  # this folder\n```'
        )
    return (
        "```python\nfrom checkwise.deployed import load\n"
        'model = load("model").module(network)  # this folder; your network, of the same shape\n'
        "probabilities = model.probabilities(inputs)\n```"
    )


def _cell(name: str, value: Measured) -> str:
    scale, decimals = METRICS[name].scale, METRICS[name].decimals
    text = number(scale * value.value, decimals)
    if value.low is None or value.high is None:
        return text
    return f"{text} [{number(scale * value.low, decimals)}, {number(scale * value.high, decimals)}]"


def _steps(steps: tuple[int, ...]) -> str:
    if len(steps) == 1:
        return str(steps[0])
    named = [str(step) for step in steps]
    if len(steps) > SHOWN:
        named = [*named[: SHOWN - 2], "…", named[-1]]
        return f"{len(steps)} checkpoints, steps {', '.join(named)}"
    return f"{len(steps)} checkpoints, steps {listed(named)}"


def _sentence(text: str) -> str:
    clean = printable(text)
    return f"{clean[:1].upper()}{clean[1:]}{'' if clean.endswith('.') else '.'}"
