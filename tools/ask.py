"""Run `checkwise` commands in one process; write what each prints to a file.

Standard input holds a JSON list of questions. Starting Python once for many commands halves the
time of a comparison. Each command runs as `python -m checkwise` runs it.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import sys
import traceback
from pathlib import Path

# How long a choice took, and when held-out results were opened: the only clocks in an answer.
SECONDS = re.compile(r'"seconds": [^,}]+')
OPENED = re.compile(r'"opened": "[^"]+"')


def run(arguments: list[str]) -> tuple[int | str, str]:
    """The exit code of ``checkwise ARGUMENTS``, or the name of what it raised, and its output."""
    printed = io.StringIO()
    sys.argv = ["checkwise", *arguments]
    code: int | str = 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            runpy.run_module("checkwise", run_name="__main__", alter_sys=True)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except Exception as error:
            code = type(error).__name__
            traceback.print_exc()
    if isinstance(code, str):
        print(f"checkwise {' '.join(arguments)}\n{errors.getvalue()}", file=sys.stderr)
    return code, printed.getvalue()


def without_clocks(text: str) -> str:
    return OPENED.sub('"opened": "then"', SECONDS.sub('"seconds": 0', text))


def main() -> None:
    for question in json.load(sys.stdin):
        code, text = run(question["arguments"])
        if code != 0:
            # The words of a refusal may change; that the command refuses may not.
            text = json.dumps({"exit": code}) + "\n"
        elif not question["prints_json"]:
            continue
        answer = Path(question["answer"])
        answer.parent.mkdir(parents=True, exist_ok=True)
        answer.write_text(without_clocks(text))


if __name__ == "__main__":
    main()
