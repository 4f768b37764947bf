"""An option that several commands have is the same option in each of them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import click

from checkwise.cli.command import Option
from checkwise.cli.entry import commands
from tests.cli.calls import otherwise

COMMANDS = commands()
# The same word about other things: a help of its own in each command.
OWN = {"--out", "--force", "--held-out", "--workers", "--checkpoints"}
OWN |= {"--plugin", "--param", "--rule", "--rules", "--run", "--only", "--role", "--tables"}


def options() -> dict[str, dict[str, Option]]:
    found: dict[str, dict[str, Option]] = defaultdict(dict)
    for name, command in COMMANDS.items():
        for option in command.params:
            if isinstance(option, Option):
                found[option.opts[-1]][name] = option
    return found


def test_an_option_means_the_same_everywhere() -> None:
    for name, of_commands in options().items():
        first, *others = of_commands.values()
        for option in others:
            assert (option.multiple, option.is_flag) == (first.multiple, first.is_flag), name
            alike = (option.help, option.default) == (first.help, first.default)
            assert alike or name in OWN, name


def test_json_is_asked_for_in_one_way() -> None:
    asked = options()["--json"]
    assert len(asked) >= 10
    assert {(option.help, option.is_flag) for option in asked.values()} == {
        ("Print JSON for machines.", True)
    }


def test_there_is_one_word_for_where_to_write() -> None:
    for name, command in COMMANDS.items():
        words = {word for option in command.params for word in option.opts}
        assert not words & {"--output", "--to", "--dest"}, name
        assert ("-o" in words) == ("--out" in words), name


def test_no_command_asks_for_much() -> None:
    slots = {name: _slots(command) for name, command in COMMANDS.items()}
    assert sum(slots.values()) <= 150
    assert max(slots.values()) <= 29


def _slots(command: click.Command) -> int:
    return sum(isinstance(option, Option) for option in command.params)


REFUSED = {
    "--param weights=sample": "--weights",
    "--param worst_domain=true": "--weights worst",
    "--param guard=false": "--no-guard",
    "--param directions=x": "--direction",
    "--param rule=ac-nc": "--rule",
    "--param q=5": "q … 5",
    "--held-out validation": "--held-out",
}


def test_values_are_refused_whatever_is_read(tmp_path: Path) -> None:
    log, out = tmp_path / "metrics.csv", tmp_path / "choice.json"
    log.write_text("epoch,val_accuracy,val_loss\n0,.5,1\n1,.6,.8\n")
    lines = {f"select LOG {words} -o OUT": said for words, said in REFUSED.items()}
    assert not otherwise(lines, LOG=log, OUT=out)
    assert not out.exists()
