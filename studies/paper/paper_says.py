"""What the paper says of every contrast, and the numbers that it prints."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from checkwise.words import number
from studies.paper.beside import Paper

ACCURACY, NLL = "target_accuracy", "target_nll"
ECE, CWECE = "target_ece", "target_cwece"
HARD_ECE, HARD_CWECE = "target_hard_ece", "target_hard_cwece"
MARGIN = 0.5  # points of accuracy that count as a small change

Side = Literal["below", "above", "small"]
Said = Literal["claimed", "described", "shown in one run", "left open"]


@dataclass(frozen=True)
class Printed:
    """A change that the paper prints, or the levels of both sides, for every data set named."""

    table: str
    data: tuple[str, ...]
    rule: str
    reference: str
    levels: bool = False

    def text(self, metric: str) -> str:
        """The numbers as printed; of levels the difference, which has no interval then."""
        one = self._difference if self.levels else self._change
        named = [f"{data} {one(data, metric)}" for data in self.data]
        return one(self.data[0], metric) if len(named) == 1 else "; ".join(named)

    def _change(self, data: str, metric: str) -> str:
        return self._look_up(data, self.rule, self.reference, metric, signed=True)

    def _difference(self, data: str, metric: str) -> str:
        sides = [
            self._look_up(data, r, "", metric, signed=False) for r in (self.rule, self.reference)
        ]
        decimals = max(len(side.partition(".")[2]) for side in sides)
        return number(float(sides[0]) - float(sides[1]), decimals, signed=True)

    def _look_up(self, data: str, rule: str, reference: str, metric: str, *, signed: bool) -> str:
        key = (self.table, data, "", rule, reference, metric)
        text = _paper().text(key, signed=signed)
        if not text:
            raise SystemExit(f"Expected {key} in paper.csv: add what the page quotes.")
        return text


@cache
def _paper() -> Paper:
    return Paper()


@dataclass(frozen=True)
class PaperClaim:
    """What the paper says of one contrast, and where it prints the number.

    Args:
        title: the claim in a few words.
        rule, reference: recipes by their names in the outcomes; a column of one recipe alone is
            compared with ``chance``.
        metric: what changes.
        side: where every interval has to lie for the claim: below or above 0 (or ``chance``), or
            within half a point of it.
        printed: where paper.csv has the number.
        said: how the paper puts it; the side of what it leaves open is the hoped one.
        chance: what a single column is compared with.
    """

    title: str
    rule: str
    reference: str
    metric: str
    side: Side
    printed: Printed | None
    said: Said = "claimed"
    chance: float = 0.0


ALL = ("OfficeHome", "TerraIncognita", "PACS")
_MAIN = Printed("main-changes", ("evaluation",), "ac-nc", "source-acc")
_WIDER = Printed("tolerance-changes", ("all",), "ac-nc(delta_pp=1.0)", "ac-nc(delta_pp=0.5)")
_NARROWER = Printed("tolerance-changes", ("all",), "ac-nc(delta_pp=0.1)", "ac-nc(delta_pp=0.5)")
_SWAD = Printed("swad", ("OfficeHome",), "swad", "ac-nc", levels=True)
_NO_STATISTICS = Printed("swad", ("OfficeHome",), "swad-nobn", "swad", levels=True)
_LODO = Printed("lodo-changes", ("evaluation",), "ac-nc", "lodo-acc")
_INSIDE_LODO = Printed("lodo-changes", ("evaluation",), "ac-lodo", "lodo-acc")
_SCALED = Printed("temperature", ("evaluation",), "source-acc+ts", "source-acc", levels=True)
_BOTH_SCALED = Printed("temperature", ("evaluation",), "ac-nc+ts", "source-acc+ts", levels=True)

GROUPS: dict[str, tuple[PaperClaim, ...]] = {
    "choosing": (
        PaperClaim("`ac-nc` lowers target NLL", "ac-nc", "source-acc", NLL, "below", _MAIN),
        PaperClaim("it lowers target ECE", "ac-nc", "source-acc", ECE, "below", _MAIN),
        PaperClaim("it lowers target CwECE", "ac-nc", "source-acc", CWECE, "below", _MAIN),
        PaperClaim(
            f"it changes target accuracy by less than {MARGIN} points",
            *("ac-nc", "source-acc", ACCURACY, "small", _MAIN),
            said="left open",
        ),
        PaperClaim(
            "choosing by ECE alone, without a tolerance, loses accuracy",
            *("pure-ece", "source-acc", ACCURACY, "below"),
            Printed("pure", ALL, "pure-ece", "source-acc", levels=True),
        ),
        PaperClaim(
            "so does CwECE alone",
            *("pure-cwece", "source-acc", ACCURACY, "below"),
            Printed("pure", ALL, "pure-cwece", "source-acc", levels=True),
        ),
        PaperClaim(
            "NLL alone keeps more accuracy than ECE alone",
            *("pure-nll", "pure-ece", ACCURACY, "above"),
            Printed("pure", ALL, "pure-nll", "pure-ece", levels=True),
        ),
    ),
    "ranking": (
        PaperClaim(
            "NLL and CwECE together give lower NLL than NLL alone",
            *("ac-nc", "ac-nll", NLL, "below"),
            Printed("component-changes", ("all",), "ac-nc", "ac-nll"),
            said="left open",
        ),
        PaperClaim(
            "and than CwECE alone",
            *("ac-nc", "ac-cwece", NLL, "below"),
            Printed("component-changes", ("all",), "ac-nc", "ac-cwece"),
            said="left open",
        ),
        PaperClaim(
            "the choice has lower NLL than a draw from the feasible set",
            *("ac-nc", "ac-mean", NLL, "below"),
            Printed("controls", ("PACS",), "ac-nc", "ac-mean", levels=True),
            said="left open",
        ),
        PaperClaim(
            "and than the earliest checkpoint in it (`ac-early`)",
            *("ac-nc", "ac-early", NLL, "below"),
            Printed("controls", ("PACS",), "ac-nc", "ac-early", levels=True),
            said="left open",
        ),
        PaperClaim(
            "D∞ gives lower NLL than D1",
            *("ac-nc", "ac-nc, D1", NLL, "below"),
            Printed("distances", ("all",), "ac-nc(q=inf)", "ac-nc(q=1)"),
            said="left open",
        ),
        PaperClaim(
            "ECE as a third objective lowers NLL",
            *("ac-nec", "ac-nc", NLL, "below"),
            Printed("objective-changes", ("all",), "ac-nec", "ac-nc"),
            said="left open",
        ),
    ),
    "tolerance": (
        PaperClaim(
            "a tolerance of 1 point gives lower ECE than 0.5",
            *("ac-nc, 1 point", "ac-nc", ECE, "below", _WIDER),
        ),
        PaperClaim(
            "and lower CwECE", "ac-nc, 1 point", "ac-nc", CWECE, "below", _WIDER, said="left open"
        ),
        PaperClaim(
            "and lower NLL", "ac-nc, 1 point", "ac-nc", NLL, "below", _WIDER, said="left open"
        ),
        PaperClaim(
            "a tolerance of 0.1 points gives higher ECE than 0.5",
            *("ac-nc, 0.1 points", "ac-nc", ECE, "above", _NARROWER),
        ),
        PaperClaim(
            "and higher CwECE",
            *("ac-nc, 0.1 points", "ac-nc", CWECE, "above", _NARROWER),
            said="described",
        ),
        PaperClaim("and higher NLL", "ac-nc, 0.1 points", "ac-nc", NLL, "above", _NARROWER),
    ),
    "order": (
        PaperClaim(
            "source utility orders the feasible checkpoints on the target (ρ)",
            *("ac-nc", "", "utility_rho", "above"),
            Printed("rank-correlation", ALL, "ac-nc", ""),
            said="described",
        ),
        PaperClaim(
            "it does so beyond what the step number orders (ρ given the step)",
            *("ac-nc", "", "utility_given_step", "above", None),
            said="left open",
        ),
        PaperClaim(
            "source accuracy orders them on the target (ρ)",
            *("ac-nc", "", "accuracy_rho", "above"),
            Printed("rank-correlation", ALL, "source-acc", ""),
            said="left open",
        ),
    ),
    "averaging": (
        PaperClaim(
            "`swad` is more accurate than `ac-nc`", "swad", "ac-nc", ACCURACY, "above", _SWAD
        ),
        PaperClaim("it has lower NLL", "swad", "ac-nc", NLL, "below", _SWAD),
        PaperClaim("it has lower ECE", "swad", "ac-nc", ECE, "below", _SWAD),
        PaperClaim("it has lower CwECE", "swad", "ac-nc", CWECE, "below", _SWAD),
        PaperClaim(
            "without new BatchNorm statistics (`swad-nobn`) it is less accurate than with them",
            *("swad-nobn", "swad", ACCURACY, "below", _NO_STATISTICS),
        ),
        PaperClaim("and has higher NLL", "swad-nobn", "swad", NLL, "above", _NO_STATISTICS),
    ),
    "lodo": (
        PaperClaim(
            "`ac-nc` has higher NLL than `lodo-acc`", "ac-nc", "lodo-acc", NLL, "above", _LODO
        ),
        PaperClaim("and higher hard ECE", "ac-nc", "lodo-acc", HARD_ECE, "above", _LODO),
        PaperClaim(
            "and higher hard CwECE",
            *("ac-nc", "lodo-acc", HARD_CWECE, "above", _LODO),
            said="left open",
        ),
        PaperClaim(
            f"and its accuracy differs by less than {MARGIN} points",
            *("ac-nc", "lodo-acc", ACCURACY, "small", _LODO),
            said="left open",
        ),
        PaperClaim(
            "`ac-lodo` has lower hard ECE than `lodo-acc`",
            *("ac-lodo", "lodo-acc", HARD_ECE, "below", _INSIDE_LODO),
        ),
        PaperClaim(
            "it lowers NLL too", "ac-lodo", "lodo-acc", NLL, "below", _INSIDE_LODO, said="left open"
        ),
        PaperClaim(
            f"and changes accuracy by less than {MARGIN} points",
            *("ac-lodo", "lodo-acc", ACCURACY, "small", _INSIDE_LODO),
            said="left open",
        ),
    ),
    "scaling": (
        PaperClaim(
            "temperature scaling lowers the NLL of `source-acc`",
            *("source-acc+ts", "source-acc", NLL, "below", _SCALED),
        ),
        PaperClaim("it lowers its ECE", "source-acc+ts", "source-acc", ECE, "below", _SCALED),
        PaperClaim(
            "with both scaled, `ac-nc` has the higher NLL",
            *("ac-nc+ts", "source-acc+ts", NLL, "above", _BOTH_SCALED),
        ),
    ),
    "predictions": (
        PaperClaim(
            "`ac-nc` has fewer errors among predictions with confidence 0.9 or more (points)",
            *("ac-nc", "source-acc", "confident_errors", "below", None),
            said="shown in one run",
        ),
        PaperClaim(
            "it makes fewer such predictions (points)",
            *("ac-nc", "source-acc", "confident_share", "below", None),
            said="shown in one run",
        ),
        PaperClaim(
            "of the errors that both make, most get more true-label probability (points above 50)",
            *("ac-nc", "", "shared_errors_raised", "above", None),
            said="shown in one run",
            chance=0.5,
        ),
        PaperClaim(
            "and most get less confidence (points above 50)",
            *("ac-nc", "", "shared_errors_lowered", "above", None),
            said="shown in one run",
            chance=0.5,
        ),
    ),
}
# Claims whose numbers are those of a case and not in a table of the paper.
CASES = {
    "confident_errors": "one run: 7.09% → 5.51%",
    "confident_share": "one run: falls",
    "shared_errors_raised": "one run: 55.9% of 642",
    "shared_errors_lowered": "one run: 57.9% of 642",
}


def printed(claim: PaperClaim) -> str:
    """The paper's number; of claims without a table that of its case."""
    if claim.printed is None:
        return CASES.get(claim.metric, "")
    return claim.printed.text("rho" if claim.metric.endswith("_rho") else claim.metric)
