"""The examples in docstrings give what they show."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import checkwise

MODULES = [
    module.name
    for module in pkgutil.walk_packages(checkwise.__path__, "checkwise.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except checkwise.MissingExtraError as missing:
        pytest.skip(str(missing))
    outcome = doctest.testmod(module)
    assert outcome.failed == 0
