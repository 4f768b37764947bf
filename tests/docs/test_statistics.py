"""The simulated coverage on the page is what its script computes."""

from __future__ import annotations

import pytest

from tests.docs.test_pages import ROOT, builder


@pytest.mark.parametrize("clusters", [3, 9])
def test_a_row_of_the_coverage_table_is_rebuilt(clusters: int) -> None:
    module = builder("intervals")
    name, shared, df = module.SCENARIOS[1]
    line = module.row(name, clusters, module.simulate(clusters, shared, df))
    assert line in (ROOT / "docs" / "statistics.md").read_text().splitlines()


def test_the_page_shows_every_row() -> None:
    module = builder("intervals")
    shown = builder("page").part(module.PAGE, module.PART).splitlines()
    assert len(shown) == 2 + len(module.SCENARIOS) * len(module.CLUSTERS)
