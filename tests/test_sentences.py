"""The sentences of all refusals stand in one file, so that a change of words is read in one place.

``python -m tests.test_sentences`` writes it anew.
"""

from __future__ import annotations

import ast
import builtins
import itertools
from collections.abc import Iterator
from pathlib import Path

from checkwise import errors

SOURCE = Path(errors.__file__).parent
FILE = Path(__file__).with_name("sentences.txt")


def sentences() -> str:
    """A line for each sentence that an error is made with: its code, and {} for what came."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args and (kind := _kind(node.func)):
                codes = [k.value for k in node.keywords if k.arg == "code"]
                said = [str(c.value) for c in codes if isinstance(c, ast.Constant)] or [kind]
                found |= {f"{said[0]}: {text}" for text in _texts(node.args[0]) if text != "{}"}
    return "".join(f"{line}\n" for line in sorted(found))


def _texts(node: ast.AST) -> Iterator[str]:
    """Every way in which an expression can read."""
    match node:
        case ast.Constant(value=str(text)):
            yield text.replace("\n", "\\n")
        case ast.JoinedStr(values=parts):
            yield from map("".join, itertools.product(*(tuple(_texts(part)) for part in parts)))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from (a + b for a in _texts(left) for b in _texts(right))
        case (
            ast.IfExp(body=one, orelse=other)
            | ast.FormattedValue(value=ast.IfExp(body=one, orelse=other))
        ):
            yield from (*_texts(one), *_texts(other))
        case _:
            yield "{}"


def _kind(function: ast.expr) -> str:
    """The default code or the name of an error of ours; nothing for other functions."""
    name = function.id if isinstance(function, ast.Name) else ""
    ours = name.endswith("Error") and not hasattr(builtins, name)
    return name.replace("InputError", "value") if ours else ""


def test_the_file_has_the_sentences_of_all_refusals() -> None:
    missing = set(sentences().splitlines()) ^ set(FILE.read_text().splitlines())
    assert not missing, "write it anew with `python -m tests.test_sentences`, and read the change"


if __name__ == "__main__":
    FILE.write_text(sentences())
