"""Show in logs.md the words by which columns are recognised, from the code that does it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from checkwise.readers import EMPTY_WORDS, PERCENT_WORDS, SPELLINGS
from checkwise.records import TRAINING_WORDS, VALIDATION_WORDS
from studies.page import fill

PAGE = Path(__file__).parents[1] / "logs.md"
PART = "words"
MEANINGS = {
    "accuracy": "accuracy",
    "nll": "NLL",
    "loss": "NLL, assumed",
    "error_rate": "1 − accuracy, where there is no accuracy",
}


def table() -> str:
    """What is read by which words, as markdown."""
    rows = [
        ("is validation", VALIDATION_WORDS),
        ("is training, never read", TRAINING_WORDS),
        ("says nothing", (*EMPTY_WORDS, *PERCENT_WORDS)),
        *((MEANINGS[metric], spellings) for metric, spellings in SPELLINGS.items()),
    ]
    lines = [f"| {meaning} | {_code(spellings)} |" for meaning, spellings in rows]
    return "\n".join(["| a column | with the words |", "|---|---|", *lines])


def _code(spellings: Iterable[str]) -> str:
    return ", ".join(f"`{spelling}`" for spelling in spellings)


if __name__ == "__main__":
    fill(PAGE, PART, table())
