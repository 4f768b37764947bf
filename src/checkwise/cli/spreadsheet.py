"""CSV that a spreadsheet shows as it stands: no cell of text is taken for a formula."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checkwise.metrics.arrays import is_number

if TYPE_CHECKING:
    import pandas

# What makes a spreadsheet read a cell as a formula (OWASP, "CSV injection"), wide forms included.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def csv_text(table: pandas.DataFrame) -> str:
    """The table as CSV; text that would begin a formula is set off by an apostrophe."""
    safe = table.copy()
    for position, kind in enumerate(table.dtypes):
        if kind.kind not in "biufc":
            safe.isetitem(position, [_cell(value) for value in table.iloc[:, position]])
    safe.columns = [_cell(name) for name in table.columns]
    return str(safe.to_csv(index=False))


def _cell(value: Any) -> Any:
    """The value itself, unless it is text that a spreadsheet would run.

    >>> _cell("=cmd()"), _cell("-0.5"), _cell("ac-nc"), _cell(3)
    ("'=cmd()", '-0.5', 'ac-nc', 3)
    """
    if isinstance(value, str) and value.startswith(FORMULA) and not is_number(value):
        return f"'{value}"
    return value
