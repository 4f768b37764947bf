"""Patterns of names: what is written with one is read with it."""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkwise as cw
from checkwise.readers import parse
from checkwise.readers.checkpoint_files import Pattern

TEXT = st.text(string.ascii_letters + "=-_. +()[]^$\\|?é\n", max_size=8)
NUMBER = st.tuples(
    st.sampled_from(["step", "epoch"]), st.integers(-9, 9), st.sampled_from(["", ":d", ":03d"])
)


def numbers_in(pattern: Pattern, name: str) -> Mapping[str, int] | None:
    found = pattern.read_name(Path("checkpoints"), name)
    return found and found.numbers


def written(name: str, offset: int, spec: str) -> str:
    return "{" + name + (f"{offset:+d}" if offset else "") + spec + "}"


@given(
    st.lists(st.tuples(NUMBER, TEXT.filter(bool)), min_size=1, max_size=4),
    TEXT,
    st.dictionaries(st.sampled_from(["step", "epoch"]), st.integers(10, 10**12), min_size=2),
)
def test_a_formatted_name_gives_its_numbers_back(
    fields: list[tuple[tuple[str, int, str], str]], start: str, values: dict[str, int]
) -> None:
    pattern = parse(start + "".join(written(*number) + text for number, text in fields))
    name = start + "".join(
        format(values[number[0]] + number[1], number[2][1:]) + text for number, text in fields
    )
    if name.startswith("."):  # a part of the path of its own, or hidden
        return
    used = {number[0] for number, _ in fields}
    assert numbers_in(pattern, name) == {n: v for n, v in values.items() if n in used}
    assert numbers_in(pattern, name + "x") is None


@given(TEXT, st.integers(0, 10**9), st.integers(0, 6))
def test_leading_zeros_and_stars_leave_the_number_whole(rest: str, step: int, zeros: int) -> None:
    name = f"{rest}{'0' * zeros}{step}{rest}"
    assert numbers_in(parse("*{step}*"), name) == {"step": step}


@given(st.text(max_size=30))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    try:
        pattern = parse(text)
    except cw.InputError:
        return
    assert pattern.numbers


@pytest.mark.parametrize(
    ("pattern", "name", "numbers"),
    [
        ("e{epoch}", "e٣", None),  # other scripts' digits are text
        ("e{epoch}", "E3", None),
        ("e{epoch}.pt", "e3xpt", None),
        ("{step}/", "7", {"step": 7}),
        ("./{step}", "7", {"step": 7}),
        ("a**{step}", "ab7", {"step": 7}),
        ("{step-1}", "6", {"step": 7}),
        ("{step}{epoch}", "67", None),  # where one ends and the other begins is unknown
    ],
)
def test_names(pattern: str, name: str, numbers: dict[str, int] | None) -> None:
    assert numbers_in(parse(pattern), name) == numbers
