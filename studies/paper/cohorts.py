"""The cohorts of the study: what they are, in the order of every table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from studies.paper.outcomes import Outcomes, read


@dataclass(frozen=True)
class Described:
    """What readers have to know of a cohort.

    Args:
        name: of the study file.
        data: what tables call it.
        role: whether its held-out results were unseen when the recipes were fixed.
        network: what was trained.
        dataset: the one that is meant, where a cohort has several.
    """

    name: str
    data: str
    role: str
    network: str
    dataset: str = ""


HEAD = "head on features of EfficientNet-Lite0"
SMALL = "small network from pixels"
FINE_TUNED = ("pacs-finetuned", "pacs-full")  # networks with live BatchNorm
COHORTS = (
    Described("taicam-sites", "camera traps, 24 places", "evaluation", HEAD),
    Described("taicam-frozen", "camera traps, 4 regions", "evaluation", HEAD),
    Described("officehome-erm", "OfficeHome, ERM", "development", HEAD),
    Described("pacs-erm", "PACS, ERM", "development", HEAD),
    Described("pacs-resnet50", "PACS, ResNet-50", "development", "head on features of ResNet-50"),
    Described("pacs-finetuned", "PACS, fine-tuned", "development", "last two stages of Lite0"),
    Described("pacs-full", "PACS, all layers", "development", "all of Lite0, 112 px, augmented"),
    Described("digits", "rotated digits", "development", SMALL, "RotatedMNIST"),
    Described("digits", "coloured digits", "development", SMALL, "ColoredMNIST"),
    Described("officehome-small", "OfficeHome, 5 classes", "development", HEAD),
)
# The same data with five algorithms, for what journals alone give; ERM has logits, too.
FIVE = {
    "officehome-erm": Described(
        "officehome-frozen", "OfficeHome, five algorithms", "development", HEAD
    ),
    "pacs-erm": Described("pacs-frozen", "PACS, five algorithms", "development", HEAD),
}


def there(only: Sequence[str] = ()) -> Iterator[tuple[Described, Outcomes]]:
    """The cohorts with their kept outcomes."""
    for each in COHORTS:
        if not only or each.name in only:
            kept = read(each.name)
            yield each, kept.of_dataset(each.dataset) if each.dataset else kept


def with_five() -> Iterator[tuple[Described, Outcomes]]:
    """The same, and the runs of five algorithms before those of ERM alone."""
    for each, kept in there():
        if each.name in FIVE:
            yield FIVE[each.name], read(FIVE[each.name].name)
        yield each, kept


def widest(each: Described, kept: Outcomes, *recipes: str) -> tuple[Described, Outcomes]:
    """The runs of five algorithms where they have these recipes, or else the cohort itself."""
    five = FIVE.get(each.name)
    if five is None or not set(recipes) <= set(read(five.name).values):
        return each, kept
    return five, read(five.name)
