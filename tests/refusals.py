"""What tests say of a refusal: its code and the names in it. Its words are in ``sentences.txt``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest

from checkwise.errors import CheckwiseError


@contextmanager
def refused(expected: str) -> Iterator[pytest.ExceptionInfo[CheckwiseError]]:
    """The block ends with an error of this code that has these names: ``missing: nll … step 3``."""
    with pytest.raises(CheckwiseError) as error:
        yield error
    assert said(error.value, expected), f"{expected!r}, but {error.value.code}: {error.value}"


def said(error: BaseException, expected: str) -> bool:
    """Whether an error has the code and the names, as ``refused`` takes them."""
    code, _, rest = expected.partition(": ")
    return isinstance(error, CheckwiseError) and error.code == code and names(rest, str(error))


def names(expected: str, text: str) -> bool:
    """Whether a text has all names, which are written ``a … b``; in any order."""
    return all(name in text for name in expected.split(" … "))


def taken(cases: Iterable[tuple[Callable[[], object], str]]) -> list[str]:
    """What of a table of calls is not refused with its code and names; a test lists them all."""
    found = []
    for number, (call, expected) in enumerate(cases):
        try:
            call()
        except Exception as error:
            if not said(error, expected):
                code = getattr(error, "code", type(error).__name__)
                found.append(f"{number}: {expected!r}, but {code}: {error}")
        else:
            found.append(f"{number}: {expected!r}, but it was taken")
    return found
