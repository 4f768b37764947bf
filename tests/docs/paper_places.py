"""Where a LaTeX paper prints what: the text of its sections and tables under their numbers."""

from __future__ import annotations

import re

_MARK = re.compile(r"\\(?:(section|subsection)\{|(appendix)\b|(begin|end)\{table\})")
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?")


def places(tex: str) -> dict[str, str]:
    """Text by "Section 4.2", "Appendix E.3", "Table 1" and "Table C.1".

    A section's text ends where the next section or subsection begins; its tables are taken out.
    """
    found: dict[str, str] = {}
    section = subsection = table = 0
    appendix = inside = False
    marks = list(_MARK.finditer(tex))
    ends = [mark.start() for mark in marks[1:]] + [len(tex)]
    for mark, end in zip(marks, ends, strict=True):
        heading, starts_appendix, edge = mark.groups()
        if starts_appendix:
            appendix, section, table = True, 0, 0
            continue
        if heading == "section":
            section, subsection = section + 1, 0
            table = 0 if appendix else table
        if heading == "subsection":
            subsection += 1
        if edge:
            inside = edge == "begin"
            table += inside
        letter = chr(ord("A") + section - 1) if appendix else str(section)
        if inside:
            name = f"Table {letter}.{table}" if appendix else f"Table {table}"
        else:
            number = f"{letter}.{subsection}" if subsection else letter
            name = f"{'Appendix' if appendix else 'Section'} {number}"
        text = tex[mark.end() : end]
        found[name] = found.get(name, "") + (text.partition("}")[2] if heading else text)
    return found


def numbers(tex: str) -> list[str]:
    """The numbers as printed, in order, without plus signs."""
    return [text.lstrip("+") for text in _NUMBER.findall(tex.replace(r"\to", " "))]


def printed_rows(tex: str) -> list[list[str]]:
    """The numbers of every row of a table."""
    return [numbers(row) for row in tex.split(r"\\")]
