"""A generated part of a page is replaced, and nothing beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_pages import builder

TEXT = "# Päge\r\n\n<!-- a -->\nold\n<!-- /a -->\nkept \n<!-- b -->\n<!-- /b -->"


def test_only_the_named_part_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_bytes(TEXT.encode())
    helper = builder("page")
    helper.fill(page, "a", "| new |\n| two |")
    expected = TEXT.replace("old", "| new |\n| two |")
    assert page.read_bytes() == expected.encode()
    assert helper.part(page, "a") == "| new |\n| two |"
    helper.fill(page, "a", "old")
    assert page.read_bytes() == TEXT.encode()


@pytest.mark.parametrize("script", ["guarantees", "intervals"])
def test_filling_a_page_with_what_it_holds_leaves_every_byte(script: str, tmp_path: Path) -> None:
    module, helper = builder(script), builder("page")
    copy = tmp_path / "page.md"
    copy.write_bytes(module.PAGE.read_bytes())
    helper.fill(copy, module.PART, helper.part(copy, module.PART))
    assert copy.read_bytes() == module.PAGE.read_bytes()


@pytest.mark.parametrize(
    "text", ["", "<!-- a -->", "<!-- /a -->\n<!-- a -->", f"{TEXT}<!-- a -->\n<!-- /a -->"]
)
def test_a_page_without_its_marks_is_left_alone(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_bytes(text.encode())
    with pytest.raises(SystemExit, match="Expected <!-- a --> and then <!-- /a --> once in"):
        builder("page").fill(page, "a", "new")
    assert page.read_bytes() == text.encode()
