"""What the intervals of the study's pages count, said on each of them."""

from __future__ import annotations

from studies.paper.cohorts import with_five
from studies.paper.effects import effect


def intervals() -> str:
    """The unit, and the data on which seeds are shared."""
    found = {described.data: effect(kept, "ac-nc").unit.name for described, kept in with_five()}
    assert set(found.values()) == {"domain", "block_domain"}
    shared = "; ".join(data for data, unit in found.items() if unit == "block_domain")
    return (
        "Intervals are 95% intervals over held-out domains. Where runs of several domains share "
        f"seeds ({shared}), they are over blocks × domains, a block being the runs that share both "
        "seeds ([why](../statistics.md#words)). Bold: the interval excludes zero. With four "
        "domains it says little."
    )
