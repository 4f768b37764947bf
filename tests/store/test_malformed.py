"""Malformed files of a cohort: one line each, from every command that reads them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from checkwise.errors import CheckwiseError
from checkwise.store import DONE_FILE, encode_json
from checkwise.store import reading as strict_json
from tests.store import malformed
from tests.study.cohorts import mark_again

SAMPLE = 60


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return malformed.write(tmp_path_factory.mktemp("malformed") / "cohort")


def test_a_bad_value_is_read_or_refused_in_one_line(cohort: Path, tmp_path: Path) -> None:
    mark = cohort / malformed.finished_run() / DONE_FILE
    wrong = []
    for mutant in random.Random(10).sample([*malformed.mutants(cohort)], SAMPLE):
        path = cohort / mutant.file
        before = path.read_bytes(), mark.read_bytes()
        path.write_bytes(mutant.content)
        if path != mark:
            mark_again(mark.parent)  # so that more than the checksum is looked at
        refusals = _refusals(cohort, tmp_path)
        wrong += [
            f"{mutant.file} at {mutant.where}: {said}" for said in refusals if not _short(said)
        ]
        path.write_bytes(before[0])
        mark.write_bytes(before[1])
    assert wrong == []


def _short(said: str) -> bool:
    return "\n" not in said and len(said) < 1000


def _refusals(cohort: Path, out: Path) -> list[str]:
    said = []
    for name, read in malformed.readers(out).items():
        try:
            read(cohort)
        except CheckwiseError as error:
            said.append(str(error))
        except Exception as error:
            said.append(f"{name} raises\n{error!r}")
    return said


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xef\xbb\xbf{}",
        b"\xff",
        b'{"a":1,"a":2}',
        b"[NaN]",
        b"[-Infinity]",
        b"[1e999]",
        b"[-1E+400]",
        b"[" + b"9" * 400 + b".0]",
        b"[" + b"9" * 5000 + b"]",
        b"[9223372036854775808]",
        b"[" * 10_000 + b"]" * 10_000,
        b'["\\ud800"]',
        b'{"\\udfff":1}',
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_checkwise_never_writes_is_no_json(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        strict_json.parse(text)


def test_what_checkwise_writes_is() -> None:
    written = {"a": [1, -(2**63) + 1, 0.1, 1e300, 5e-324, None, True, {"é😀": "x"}]}
    assert strict_json.parse(encode_json(written).encode()) == written
    assert strict_json.parse(b'["\\ud83d\\ude00"]') == ["😀"]
