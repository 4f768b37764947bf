"""Show the literal version of the rule, which the tests hold against the library, in rules.md."""

from __future__ import annotations

from pathlib import Path

from studies.page import fill

PAGE = Path(__file__).parents[1] / "rules.md"
PART = "literal"
LITERAL = Path(__file__).parents[2] / "tests" / "selection" / "literal.py"


def listing() -> str:
    """The code of the module, without its docstring and future import."""
    code = LITERAL.read_text().partition("annotations\n")[2].strip()
    return f"```python\n{code}\n```"


def main() -> None:
    fill(PAGE, PART, listing())


if __name__ == "__main__":
    main()
