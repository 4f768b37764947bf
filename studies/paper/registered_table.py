"""What was registered on the camera traps, and what came of it: `study register --show`."""

from __future__ import annotations

import json
from typing import Any

from checkwise.words import number
from studies.page import DATA
from studies.paper.beside import grid
from studies.paper.effects import DECIMALS, end

WORDS = {
    "a": "averaging: accuracy",
    "b": "averaging: NLL",
    "c": "choosing: NLL",
    "d": "validating by sites: NLL",
    "c, accuracy": "choosing: accuracy",
    "early": "the earliest in the tolerance",
    "accuracy by sites": "validating by sites: accuracy",
    "T ≥ 1": "never sharpening",
    "worst place": "averaging at the worst place: accuracy",
    "advice: accuracy": "the product's advice: accuracy",
    "advice: source-acc": "the product's advice: NLL",
    "advice: last": "the same against the last checkpoint",
    "advice: pure-nll": "the same against the lowest source NLL",
}
ORDER = ("contradicted", "not found", "found", "estimate only")  # the unfavourable first


def read(cohort: str) -> dict[str, Any]:
    """The one set of contrasts that was registered."""
    (one,) = json.loads((DATA / f"registered-{cohort}.json").read_text())["sets"]
    return dict(one)


def named(cohort: str) -> dict[str, dict[str, Any]]:
    """The contrasts of an opened cohort by name."""
    return {each["name"]: each for each in read(cohort)["contrasts"]}


def plain(each: dict[str, Any], value: float) -> str:
    """A number with the decimals of a contrast's metric."""
    return f"{value:.{_decimals(each)}f}"


def table(cohort: str) -> str:
    """Every contrast in the order of its verdict."""
    one = read(cohort)
    contrasts = sorted(one["contrasts"], key=lambda each: ORDER.index(each["verdict"]))
    header = (
        *("contrast", "rule − reference", "places, runs"),
        *("change [95%, places]", "at a new place, 95%"),
        *("p, Holm", "verdict", "detectable"),
    )
    tested = any(each["family"] for each in contrasts)
    shown = len(header) if tested else 5  # estimates have no p and no verdict
    planned = len(one["places"])
    return grid(header[:shown], [_row(each, planned)[:shown] for each in contrasts], 3)


def _row(each: dict[str, Any], planned: int) -> tuple[str, ...]:
    metric = each["metric"].partition("_")[2]
    compared = f"`{each['rule']}` − `{each['reference']}`: {metric.replace('nll', 'NLL')}"
    return (
        WORDS.get(each["name"], each["name"]),
        compared,
        f"{each['places'] or planned}, {each['runs']}",  # the worst place is one of all
        change(each),
        "" if each["new_low"] is None else _interval(each, "new_low", "new_high"),
        "" if each["holm"] is None else _p(each["holm"]),
        verdict(each),
        "" if each["detectable"] is None else plain(each, each["detectable"]),
    )


def times() -> str:
    """When each set was registered and opened, with its digest and the code."""
    rows = []
    for cohort in ("taicam-sites", "taicam-frozen"):
        one = read(cohort)
        when = one["registered"]
        rows.append(
            (
                f"`{cohort}`",
                _utc(when["at"]),
                f"{one['registered_runs']} of {one['planned']}",
                _utc(when["opened"]),
                f"`{one['digest']}`",
            )
        )
    header = ("cohort", "registered", "runs finished then", "opened", "digest")
    commit = json.loads((DATA / "registered-taicam-sites.json").read_text())["code"]["commit"]
    places = named_places("taicam-sites")
    return (
        f"{grid(header, rows, 5)}\n\nCode: commit `{commit}`. The record of `taicam-sites` lists "
        f"the sites of {sum(map(bool, places.values()))} of its {len(places)} places. No run of "
        "the others was finished then; their sites follow from the code and the data file. A test "
        "deals all places anew from that file: the registered sites, and the number of images of "
        "every place in the packed runs, are the same."
    )


def named_places(cohort: str) -> dict[str, Any]:
    """The sites of every place as they were registered; None where they were not."""
    return dict(read(cohort)["places"])


def _utc(text: str) -> str:
    day, _, time = text.partition("T")
    return f"{day} {time.removesuffix('+00:00')} UTC"


def change(each: dict[str, Any]) -> str:
    """The mean change with its interval."""
    mean = number(each["mean"], _decimals(each), signed=True)
    return mean if each["low"] is None else f"{mean} {_interval(each, 'low', 'high')}"


def verdict(each: dict[str, Any]) -> str:
    """The verdict; what fails where the side condition does."""
    condition = each["condition"]
    if each["verdict"] == "not found" and condition is not None and not condition["holds"]:
        return "not found (accuracy)"
    return str(each["verdict"])


def _interval(each: dict[str, Any], low: str, high: str) -> str:
    ends = (end(each[name], _decimals(each)) for name in (low, high))
    return f"[{', '.join(ends)}]"


def _decimals(each: dict[str, Any]) -> int:
    return DECIMALS.get(each["metric"], 2)


def _p(value: float) -> str:
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"
