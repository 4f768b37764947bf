"""Pictures of the study show what the packed journals give."""

from __future__ import annotations

import json
import re

from checkwise.study.pool import Pool
from tests.docs.test_pages import ROOT, builder

PAGE = ROOT / "docs" / "study" / "figures.md"


def test_the_overview_figures_were_drawn_from_the_packed_journals() -> None:
    module = builder("study_figures")
    with builder("packed").packed_cohorts(module.COHORTS) as cohorts:
        found = module.overview(Pool(list(cohorts.values())))
    assert json.loads(module.FACTS.read_text()) == found, "run docs/build/study_figures.py"


def test_every_interval_of_the_overview_is_over_what_the_page_says() -> None:
    facts = json.loads(builder("study_figures").FACTS.read_text())
    assert {cell["tau"]["over"] for cell in facts["kendall"]["cells"]} == {"4 domains"}
    assert "four\nheld-out domains of a data set" in PAGE.read_text()
    shown = re.findall(r"images/(overview-[a-z]+)\.png", PAGE.read_text())
    assert sorted(shown) == sorted(
        f"overview-{name}" for name in (*builder("study_figures").OVER_RUNS, "trajectory")
    )
