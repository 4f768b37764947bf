"""Put questions to one side in one process; write each answer to a file.

Standard input holds the side's words and a list of questions. Starting Python once for many
commands halves the time of a comparison. Each command runs as `python -m checkwise` runs it. A
question about Python is a file in ``topics``, whose function ``answers`` gives names and values.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import runpy
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import page_facts
from words import Words

# What differs from run to run or from commit to commit by its nature: clocks, and which code ran.
NATURAL = {
    re.compile(r'"seconds": [^,}]+'): '"seconds": 0',
    re.compile(r'"(opened|at)": "\d[^"]+"'): r'"\1": "then"',
    # Size and time of a file, in a live journal.
    re.compile(r'"state": "[0-9a-f]{16}"'): '"state": "then"',
    re.compile(r'"code": \{"version"[^}]*\}'): '"code": {}',
}
# The digest of a registration covers its time.
REGISTERED = re.compile(r'"digest": "[0-9a-f]{64}"')


@dataclass(frozen=True)
class Side:
    """What a topic asks: commands and public names in the fixed words, answers in them too."""

    kind: str
    words: Words

    def run(self, *arguments: object) -> Any:
        """What ``checkwise ARGUMENTS`` prints as JSON, None if it is none, or its refusal."""
        code, text = self.printed([str(argument) for argument in arguments])
        if code != 0:
            return refusal(code)
        try:
            return self.words.answer(self.kind, json.loads(text))
        except ValueError:
            return None

    def printed(self, arguments: list[str]) -> tuple[int | str, str]:
        code: int | str = 0
        text = ""
        for command in self.words.command(arguments):
            code, text = run(command)
            if code != 0:
                break
        return code, text

    def public(self, name: str) -> Any:
        """A name that users import, as ``checkwise:LiveSelector``."""
        module, _, attribute = self.words.python.get(name, name).partition(":")
        return getattr(importlib.import_module(module), attribute)

    def read(self, file: Path) -> Any:
        """A file of JSON or of JSON lines."""
        text = file.read_text()
        lines = text.splitlines() if file.suffix == ".jsonl" else [text]
        values = [self.words.answer(self.kind, json.loads(line)) for line in lines]
        return values if file.suffix == ".jsonl" else values[0]


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


def refusal(code: int | str) -> dict[str, int | str]:
    # The words of a refusal may change; that the command refuses may not.
    return {"exit": code}


def settled(kind: str, text: str) -> str:
    for expression, same in NATURAL.items():
        text = expression.sub(same, text)
    return REGISTERED.sub('"digest": "then"', text) if kind == "registered" else text


def command_answer(question: dict[str, Any], side: Side) -> str | None:
    """What a command printed or, where it writes a page, what the page says."""
    code, text = side.printed(question["arguments"])
    if code != 0:
        return json.dumps(refusal(code)) + "\n"
    if question["page"]:
        text = json.dumps(page_facts.read(Path(question["page"]).read_text()))
    elif not question["prints_json"]:
        return None
    if side.words.renames_answers:
        text = json.dumps(side.words.answer(side.kind, json.loads(text))) + "\n"
    return text


def topic_answers(topic: str, side: Side) -> Iterator[tuple[str, str]]:
    try:
        for name, value in importlib.import_module(f"topics.{topic}").answers(side):
            yield f"{name}.json", json.dumps(value, default=float) + "\n"
    except Exception as error:
        traceback.print_exc()
        yield f"{topic}.json", json.dumps(refusal(type(error).__name__)) + "\n"


def write(kind: str, answer: Path, text: str) -> None:
    answer.parent.mkdir(parents=True, exist_ok=True)
    answer.write_text(settled(kind, text))


def main() -> None:
    asked = json.load(sys.stdin)
    words = Words(**asked["words"])
    # Frameworks may talk on standard output.
    with contextlib.redirect_stdout(sys.stderr):
        for question in asked["questions"]:
            answer = Path(question["answer"])
            side = Side(answer.parts[1], words)
            if question["topic"]:
                os.environ["KERAS_BACKEND"] = "torch"
                for name, value in topic_answers(question["topic"], side):
                    write(side.kind, answer / name, value)
            elif (text := command_answer(question, side)) is not None:
                write(side.kind, answer, text)


if __name__ == "__main__":
    main()
