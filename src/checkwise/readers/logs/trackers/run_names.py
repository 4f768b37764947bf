"""Names of the runs that one file or folder holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from checkwise.text import printable

SHORT_ID = 8  # characters; what trackers themselves show


def unique(names: Mapping[str, str]) -> dict[str, str]:
    """A printable name for each run, by its identifier; "" where there is only one run.

    Args:
        names: name of each run by its identifier. Names may repeat, identifiers cannot.

    Example:
        >>> unique({"3f2a9c01aa": "cnn", "77b0d4e2bb": "cnn", "90c1f3a5cc": "vit"})
        {'3f2a9c01aa': 'cnn-3f2a9c01', '77b0d4e2bb': 'cnn-77b0d4e2', '90c1f3a5cc': 'vit'}
    """
    if len(names) == 1:
        return dict.fromkeys(names, "")
    labels = {run: printable(name) or printable(run) for run, name in names.items()}
    for length in (SHORT_ID, None):
        times = Counter(labels.values())
        labels = {
            run: label
            if times[label] == 1
            else f"{printable(names[run])}-{printable(run[:length])}"
            for run, label in labels.items()
        }
    return labels
