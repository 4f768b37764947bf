"""The recipes that the study can speak of: when each applies, and the commands for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from checkwise.advice.commands import FOLDER, Commands, to_fill_in
from checkwise.advice.evidence import Effect, Evidence
from checkwise.advice.situation import Situation
from checkwise.calibrators.calibrator import LEAST_ERRORS
from checkwise.selection.default_rule import REFERENCE
from checkwise.selection.saturation import FEW_ERRORS, SAFER
from checkwise.text import counted

MEMBERS: Final = 5
AVERAGE: Final = ("--average", "probabilities", "--members", str(MEMBERS))
KERAS: Final = (".keras", ".weights.h5")
# Names of recipes in the table of effects.
AVERAGE_SOFTENED: Final = "average, softened"
AVERAGED: Final = "average"
SOFTENED: Final = "one checkpoint, softened"
CHOSEN: Final = "choose by {rule}"


@dataclass(frozen=True)
class Step:
    """One thing to do.

    Attributes:
        title: what.
        recipe: its name in the table of effects.
        expected: the change of the NLL on unseen domains relative to its level, on the runs on
            which all recipes were measured; None where it was not.
        why: reasons and cautions, in sentences.
        commands: what to run, in order.
        fill_in: what has to be put into them first; empty where they run as they are.
        evidence: what was measured.
    """

    title: str
    recipe: str
    expected: float | None
    why: tuple[str, ...]
    commands: tuple[str, ...]
    fill_in: tuple[str, ...]
    evidence: tuple[Effect, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "title": self.title,
            "recipe": self.recipe,
            "expected_relative_change_of_nll": self.expected,
            "why": list(self.why),
            "commands": list(self.commands),
            "fill_in": list(self.fill_in),
            "evidence": [
                {**effect.as_dict(), "strength": effect.strength, "text": str(effect)}
                for effect in self.evidence
            ],
        }


def steps(facts: Situation, evidence: Evidence, run: Commands) -> tuple[Step, ...]:
    """What to do, in order of expected gain; on saturated validation the safe choice first.

    Of two steps that were not shown to differ, the simpler one comes first.
    """
    found = [
        *_averages(facts, evidence, run),
        *_softened(facts, evidence, run),
        *_choices(facts, evidence, run),
    ]
    found.sort(key=lambda step: 0.0 if step.expected is None else step.expected)
    found = _simpler_first(found, evidence)
    if facts.saturated:
        found.sort(key=lambda step: step.recipe != CHOSEN.format(rule=SAFER))
    return tuple(found)


def _simpler_first(found: list[Step], evidence: Evidence) -> list[Step]:
    """A step that was not shown to be better than a simpler one goes behind it."""
    ordered: list[Step] = []
    for step in found:
        simpler = evidence.no_better_than.get(step.recipe)
        behind = [other for other in found if other.recipe == simpler]
        ordered += [other for other in (*behind, step) if other not in ordered]
    return ordered


def _averages(facts: Situation, evidence: Evidence, run: Commands) -> Iterator[Step]:
    if facts.with_weights < 2:
        return
    few = min(MEMBERS, facts.with_weights)
    count = counted(few, "checkpoint")
    cost = f"It takes {few} times the time and memory of one model."
    if AVERAGE_SOFTENED in evidence.no_better_than and facts.logits != "none":
        cost += " That it is better than one softened checkpoint was not shown."
    safe = ("Where validation is saturated it may do harm: see step 1.",) * facts.saturated
    if facts.logits != "none":
        commands = (run.deploy(*AVERAGE, *_data(facts)),)
        title = f"Deploy the mean probabilities of {count} near the best, softened"
        yield _step(title, AVERAGE_SOFTENED, evidence, (cost, *safe), commands)
        return
    yield _step(
        f"Deploy the mean probabilities of {count} near the best",
        AVERAGED,
        evidence,
        (cost, "Without logits it is not calibrated.", *safe),
        (run.deploy(*AVERAGE),),
    )
    if predicted := _predicted(facts, run):
        command, folder = predicted
        yield _step(
            f"Save logits, then deploy the mean probabilities of {count}, softened",
            AVERAGE_SOFTENED,
            evidence,
            (cost, *safe),
            (command, run.deploy(*AVERAGE, path=folder)),
        )


def _softened(facts: Situation, evidence: Evidence, run: Commands) -> Iterator[Step]:
    why = _about_temperature(facts)
    rule = ("--rule", SAFER) if facts.saturated else ()
    if facts.logits != "none":
        deploys = facts.chosen_has_weights
        command = run.deploy if deploys else run.calibrate
        yield _step(
            "Deploy one checkpoint, softened" if deploys else "Soften the chosen checkpoint",
            SOFTENED,
            evidence,
            why,
            (command(*rule, *_data(facts)),),
        )
    elif facts.chosen_has_weights and (predicted := _predicted(facts, run)):
        yield _step(
            "Save logits, then deploy one checkpoint, softened",
            SOFTENED,
            evidence,
            why,
            (predicted[0], run.deploy(*(rule or facts.trained_with), path=predicted[1])),
        )


def _choices(facts: Situation, evidence: Evidence, run: Commands) -> Iterator[Step]:
    named = CHOSEN.format(rule=facts.rule)
    if facts.saturated:
        yield _step(
            f"Choose the earliest checkpoint near the best ({SAFER})",
            CHOSEN.format(rule=SAFER),
            evidence,
            _about_saturation(facts, evidence),
            (run.select("--rule", SAFER),),
        )
        return
    why = [f"It is step {facts.step}."]
    if facts.rule == REFERENCE:
        why.append("The other steps are compared with this one.")
    if not facts.chosen_has_weights:
        why.append(_without_weights(facts))
    yield _step(f"Choose with {facts.rule}", named, evidence, tuple(why), (run.select(),))
    safer = CHOSEN.format(rule=SAFER)
    if facts.rule not in (SAFER, REFERENCE) and "accuracy" in facts.metrics:
        yield _step(
            f"Choose the earliest checkpoint near the best ({SAFER})",
            safer,
            evidence,
            ("It looks at no probability, so it needs nothing but accuracies.",),
            (run.select("--rule", SAFER),),
        )
    elif facts.rule == REFERENCE:
        yield _step(
            f"Choose the earliest checkpoint near the best ({SAFER})",
            safer,
            evidence,
            ("There is accuracy alone; this looks at nothing else.",),
            (run.select("--rule", SAFER),),
        )


def _without_weights(facts: Situation) -> str:
    """What to do with a choice that ``checkwise deploy`` cannot take."""
    if facts.chosen_file is None:
        return "No weights of it are on disk, so `checkwise deploy` cannot take it."
    if facts.chosen_file.endswith(KERAS):
        return (
            "Its weights are of Keras, and `checkwise deploy` reads those of PyTorch: "
            "`load_chosen` of checkwise.integrations.keras gives the model (docs/keras.md)."
        )
    return "`checkwise deploy` reads weights of PyTorch, which the file of this one does not hold."


def _step(
    title: str,
    recipe: str,
    evidence: Evidence,
    why: tuple[str, ...],
    commands: tuple[str, ...],
) -> Step:
    return Step(
        title,
        recipe,
        evidence.expected.get(recipe),
        why,
        commands,
        to_fill_in(commands),
        evidence.of(recipe),
    )


def _data(facts: Situation) -> tuple[str, ...]:
    """Where the data are, if logits have to be made from them."""
    if facts.logits != "from weights and data":
        return ()
    return ("--data", f"{facts.dataset}={FOLDER}")


def _predicted(facts: Situation, run: Commands) -> tuple[str, str] | None:
    """The command that saves logits, and where; None where no folder holds the checkpoints."""
    if facts.checkpoints is None or any("," in domain for domain in facts.domains):
        return None
    return run.predict(facts.checkpoints, facts.domains)


def _about_temperature(facts: Situation) -> tuple[str, ...]:
    never = "One temperature of at least 1: no prediction changes, and none becomes more confident."
    if facts.errors is None or facts.errors >= LEAST_ERRORS:
        return (never,)
    return (
        never,
        f"With {counted(facts.errors, 'error')} it is fitted to little: below {LEAST_ERRORS} its "
        "state says so.",
    )


def _about_saturation(facts: Situation, evidence: Evidence) -> tuple[str, ...]:
    fewest = min(evidence.fewest_errors.values())
    return (
        f"With {counted(facts.errors or 0, 'error')} in {facts.examples or 'all'} examples, "
        "ranking by probabilities is not to be trusted.",
        f"The runs of the figures below have at least {fewest} validation errors, and yours has "
        f"{facts.errors} (saturated: {FEW_ERRORS} or fewer).",
        evidence.saturated,
    )
