"""Rebuild study/results.md, the pages per question and their figure from the kept outcomes.

Run by ``make pages``; ``tests/docs`` checks that the pages show what this computes.
"""

from __future__ import annotations

import json
from typing import Any

import places_figure
import question_tables
import registered_table
from answer import points
from beside import grid
from cohorts import there
from contrast import Claim
from effects import Effect, effect
from outcomes import record_of
from packed import DATA
from question_answers import developed, said

from checkwise.text import number
from page import fill

PAGE = question_tables.STUDY / "results.md"
NLL, ACCURACY = question_tables.NLL, question_tables.ACCURACY
SOFT = question_tables.SOFT
SITES = "taicam-sites"
TUNED = ("pacs-finetuned", "pacs-full")
TIMES = DATA / "times.json"


def parts() -> dict[str, str]:
    """Every generated part of the page by name."""
    return {
        "found": points(found()),
        "development": points(on_development()),
        "tuned": points(on_tuned()),
        "registered": registered_table.table(SITES),
        "estimates": registered_table.table("taicam-frozen"),
        "runs": runs(),
    }


def runs() -> str:
    """What was trained, on what machine."""
    rows = []
    titles: dict[str, list[str]] = {}
    for described, _ in there():
        titles.setdefault(described.name, []).append(described.data)
    for described in {each.name: each for each, _ in there()}.values():
        facts = record_of(described.name)["trained"]
        counts = [facts[name] for name in ("runs", "records", "diverged_records", "runs_lost")]
        rows.append(
            (
                *(" and ".join(titles[described.name]), f"`{described.name}`"),
                *(described.role, described.network),
                *(f"{count:,}" for count in counts),
                f"{facts['median_seconds']} s",
            )
        )
    header = (
        *("data", "cohort", "role", "what learns", "runs", "records", "diverged records"),
        *("runs lost", "one run, median"),
    )
    machine = json.loads(TIMES.read_text())["machine"].partition(". One run")[0]
    return f"{grid(header, rows, 4)}\n\n{machine}."


def found() -> list[Claim]:
    """What the registered places say, the unfavourable first."""
    one = registered_table.named(SITES)
    say = registered_table.change
    soft = effect(SITES, f"source-acc{SOFT}")
    left = effect(SITES, f"ac-nc{SOFT}", f"source-acc{SOFT}")
    sites = effect(SITES, f"source-acc@groups{SOFT}", f"source-acc{SOFT}")
    pure, harder = effect(SITES, "pure-nll"), effect(SITES, "source-acc+ts-max")
    return [
        Claim(
            "**Averaging: not found.** Mean probabilities over the checkpoints within 1 point − "
            f"`source-acc`, both with T ≥ 1: NLL {say(one['b'])}, accuracy {say(one['a'])} points. "
            f"Changes of {_detectable(one['b'])} NLL and {_detectable(one['a'])} points would have "
            "been found with 80% probability.",
            tuple(one[name]["verdict"] == "not found" for name in "ab"),
        ),
        Claim(
            "**The product's advice** (five checkpoints averaged, T ≥ 1): **found** against the "
            f"last checkpoint with T ≥ 1 (NLL {say(one['advice: last'])}), **not found** against "
            f"`source-acc` with T ≥ 1 ({say(one['advice: source-acc'])}) and `pure-nll` with T ≥ 1 "
            f"({say(one['advice: pure-nll'])}).",
            (
                one["advice: last"]["verdict"] == "found",
                one["advice: source-acc"]["verdict"] == "not found",
                one["advice: pure-nll"]["verdict"] == "not found",
            ),
        ),
        Claim(
            f"**Choosing: found.** `ac-nc` − `source-acc`: NLL {say(one['c'])}, accuracy "
            f"{_accuracy(one['c'])} points. Against it, as estimates: the earliest checkpoint in "
            f"the tolerance does better (`ac-early` − `ac-nc` {say(one['early'])}); the lowest "
            f"source NLL without any tolerance does much better (`pure-nll` − `source-acc` "
            f"{pure.plain}); and with T ≥ 1 on both {left.plain} is left of the change.",
            (
                one["c"]["verdict"] == "found",
                one["early"]["mean"] < 0,
                abs(left.mean) < abs(one["c"]["mean"]) / 2,
                pure.mean < 2 * one["c"]["mean"],
            ),
        ),
        Claim(
            "**Validating by sites: found**, and by far the largest. The most accurate checkpoint "
            f"on whole unseen sites − that on images of known sites: NLL {say(one['d'])}. With T ≥ "
            f"1, fitted on the same validation set, {sites.plain} (an estimate).",
            (one["d"]["verdict"] == "found", one["d"]["mean"] < one["c"]["mean"], sites.mean < 0),
        ),
        Claim(
            f"**Calibrating** (estimates). T ≥ 1 changes the NLL of `source-acc` by {soft.plain}. "
            f"Where plain temperature scaling sharpens ({one['T ≥ 1']['runs']} of "
            f"{one['a']['runs']} runs), T ≥ 1 is better by {say(one['T ≥ 1'])}. The largest "
            f"temperature of any source domain, `ts-max`, does more: {harder.plain}.",
            (soft.mean < 0, one["T ≥ 1"]["high"] < 0, harder.mean < soft.mean),
        ),
    ]


def on_development() -> list[Claim]:
    """What development data say."""
    choice = developed("ac-nc")
    left = developed(f"ac-nc{SOFT}", f"source-acc{SOFT}")
    soft = developed(f"source-acc{SOFT}")
    mean = developed("deploy-mean-probs", f"source-acc{SOFT}")
    points = developed("deploy-mean-probs", f"source-acc{SOFT}", ACCURACY)
    return [
        Claim(
            f"`ac-nc` − `source-acc`: NLL {said(choice)}; with T ≥ 1 on both {said(left)}.",
            (not any(e.excludes_zero for e in choice.values()), _all_below(choice)),
        ),
        Claim(
            f"T ≥ 1 changes the NLL of `source-acc` by {said(soft)}.",
            tuple(soft[data].mean < choice[data].mean for data in soft),
        ),
        Claim(
            "Mean probabilities over the checkpoints within 1 point − `source-acc`, both with "
            f"T ≥ 1: NLL {said(mean)}; accuracy, in points, {said(points)}.",
            (_all_below(mean), all(e.mean > 0 for e in points.values())),
        ),
    ]


def on_tuned() -> list[Claim]:
    """What networks say whose convolutions learned too."""
    claims = []
    for described, kept in there(TUNED):
        choice, soft = effect(kept, "ac-nc"), effect(kept, f"source-acc{SOFT}")
        left = effect(kept, f"ac-nc{SOFT}", f"source-acc{SOFT}")
        mean, gained = (
            effect(kept, "deploy-mean-probs", f"source-acc{SOFT}", metric)
            for metric in (NLL, ACCURACY)
        )
        claims.append(
            Claim(
                f"**{described.data}** ({described.network}; {choice.runs} runs, "
                f"{len(choice.names)} domains). `ac-nc` − `source-acc`: NLL {choice.plain}, with "
                f"T ≥ 1 on both {left.plain}. T ≥ 1 alone: {soft.plain}. Mean probabilities within "
                f"1 point, with T ≥ 1 on both: NLL {mean.plain}, accuracy {gained.plain} points.",
                (),
            )
        )
    return claims


def _detectable(each: dict[str, Any]) -> str:
    return registered_table.plain(each, each["detectable"])


def _accuracy(each: dict[str, Any]) -> str:
    condition = each["condition"]
    ends = [number(condition[end], 2, signed=True) for end in ("mean", "low", "high")]
    return f"{ends[0]} [{ends[1]}, {ends[2]}]"


def _all_below(found: dict[str, Effect]) -> bool:
    return all(each.mean < 0 for each in found.values())


def main() -> None:
    for name, content in parts().items():
        fill(PAGE, name, content)
    question_tables.main()
    places_figure.draw()


if __name__ == "__main__":
    main()
