"""What to do when a log lacks what a rule ranks by."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping


def missing_advice(
    available: Collection[str], needed: Iterable[str], rules: Mapping[str, Collection[str]]
) -> str:
    """One line: what is missing, which rules work on this log, and how to get the rest.

    Args:
        available: metrics the trajectory carries (``trajectory.metrics``).
        needed: metrics the rule asked for.
        rules: rule name → the metrics it needs beyond accuracy.

    Example:
        >>> missing_advice(["accuracy"], ["nll"], {"source-acc": (), "ac-nll": ("nll",)})[:52]
        'this log has accuracies only (missing: nll); rules t'
    """
    lacking = [name for name in dict.fromkeys(needed) if name not in available]
    if not lacking:
        return "nothing is missing"
    has = "accuracies only" if set(available) == {"accuracy"} else ", ".join(available)
    work = [name for name, needs in rules.items() if set(needs) <= {"accuracy", *available}]
    return (
        f"this log has {has} (missing: {', '.join(lacking)}); rules that work on it: "
        f"{', '.join(work) or 'none'}; for the others, save the outputs of every checkpoint on the "
        "validation sets as step-000100/<domain>.npz with logits and labels, and give that folder"
    )
