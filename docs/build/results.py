"""Rebuild study/results.md, the pages per question and their figure from the kept outcomes.

Run by ``make docs``; ``tests/docs`` checks that the pages show what this computes.
"""

from __future__ import annotations

import places_figure
import question_tables
import registered_table
from contrast import Claim
from effects import Effect, effect

from page import fill

PAGE = question_tables.STUDY / "results.md"
NLL, ACCURACY = question_tables.NLL, question_tables.ACCURACY
SOFT = question_tables.SOFT
DEVELOPMENT = {"OfficeHome": "officehome-erm", "PACS": "pacs-erm"}


def parts() -> dict[str, str]:
    """Every generated part of the page by name."""
    return {
        "found": "\n".join(f"- {_checked(claim)}" for claim in found()),
        "registered": registered_table.table("taicam-sites"),
        "estimates": registered_table.table("taicam-frozen"),
    }


def found() -> list[Claim]:
    """What development data say, the unfavourable first."""
    choice = _on("ac-nc")
    early = _on("ac-nc", "ac-early")
    left = _on(f"ac-nc{SOFT}", f"source-acc{SOFT}")
    soft = _on(f"source-acc{SOFT}")
    mean = _on("deploy-mean-probs", f"source-acc{SOFT}")
    points = _on("deploy-mean-probs", f"source-acc{SOFT}", ACCURACY)
    return [
        Claim(
            f"**Choosing.** `ac-nc` − `source-acc`: NLL {_said(choice)}. With four domains neither "
            f"interval excludes zero. Against the earliest checkpoint in the tolerance: "
            f"{_said(early)}.",
            (not any(e.excludes_zero for e in choice.values()), _all_below(choice)),
        ),
        Claim(
            f"**Choosing after calibrating.** With one temperature of at least 1 on both, "
            f"`ac-nc` − `source-acc` is {_said(left)}: little is left.",
            (max(abs(e.mean) for e in left.values()) < 0.03,),
        ),
        Claim(
            f"**Calibrating.** One temperature of at least 1 changes the NLL of `source-acc` by "
            f"{_said(soft)}, more than choosing does.",
            tuple(soft[data].mean < choice[data].mean for data in soft),
        ),
        Claim(
            "**Averaging.** Mean probabilities over the checkpoints within 1 point − "
            f"`source-acc`, both with T ≥ 1: NLL {_said(mean)}, accuracy {_said(points)} points.",
            (_all_below(mean), all(e.mean > 0 for e in points.values())),
        ),
    ]


def _on(recipe: str, reference: str = "source-acc", metric: str = NLL) -> dict[str, Effect]:
    return {data: effect(name, recipe, reference, metric) for data, name in DEVELOPMENT.items()}


def _said(found: dict[str, Effect]) -> str:
    return ", ".join(f"{each.plain} on {data}" for data, each in found.items())


def _all_below(found: dict[str, Effect]) -> bool:
    return all(each.mean < 0 for each in found.values())


def _checked(claim: Claim) -> str:
    """The sentence; building the page fails if it is untrue."""
    if not all(claim.holds):
        raise SystemExit(f"Expected the numbers to bear out: {claim.text}")
    return claim.text


def main() -> None:
    for name, content in parts().items():
        fill(PAGE, name, content)
    question_tables.main()
    places_figure.draw()


if __name__ == "__main__":
    main()
