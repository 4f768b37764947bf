"""What commands print is written into a page, shortened, and the page then holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.docs.run_page import prints
from tests.docs.test_pages import builder, fault_of

CASE = "tests/material/trainers/lightning/plain"
PAGE = f"""\
# A page

<!-- laid out: {CASE} as runs/digits -->

```console
$ checkwise select runs/digits --rule source-acc
wrong
$ checkwise select runs/digits
$ checkwise select runs/digits --column accuracy=nothing
checkwise: …
```
"""


@pytest.mark.usefixtures("commands")
def test_outputs_are_written_where_a_page_shows_some(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    before = Path.cwd()
    text = builder("outputs").rewritten(page)
    assert Path.cwd() == before
    begin, rest = text.split("--rule source-acc\n")
    assert begin == PAGE.split("--rule source-acc\n")[0]
    shown, rest = rest.split("$ checkwise select runs/digits\n", 1)
    assert "wrong" not in shown
    assert "checkpoints/epoch=6-step=210.ckpt" in shown
    assert rest.startswith("$ checkwise select runs/digits --column accuracy=nothing\ncheckwise: ")
    assert os.sep + "tmp" not in text
    page.write_text(text, encoding="utf-8")
    (tmp_path / "empty").mkdir()
    assert fault_of(page, tmp_path / "empty") == ""


def test_a_shortened_output_stands_for_the_whole() -> None:
    rows = "".join(f"{rank:4}  {10 * rank}\n" for rank in range(1, 9))
    output = f"Rule: any.\nrank  step\n{rows}\n{'word ' * 40}\n"
    shown = builder("outputs").shortened(output)
    assert shown.count("\n") == 8
    assert max(map(len, shown.splitlines())) <= 110
    assert prints(output, shown)
    assert not prints(output.replace("   1  10", "   1  11"), shown)
    assert not prints(output.replace("word", "term"), shown)
