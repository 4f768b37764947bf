"""Which validation sets selection must not use, by their names.

A set is held out in one of three ways, and every reader uses this module for all three:

1. The input says so: ``role``, a ``held_out`` column, ``test_envs``, the run's own record.
2. The caller says so, with ``held_out=`` or ``--held-out``. The name has to be one that is there,
   so that a typing mistake cannot leave the target among the sources.
3. Its name says so (:func:`looks_held_out`) and there are other sets beside it. ``sources=`` or
   ``--source`` says that such a set is validation after all. A set that stands alone is refused
   until the caller says which it is: a validation set under an unlucky name, or a mistake.

What the cells beside a set's values say is in :mod:`checkwise.records.held_out_cells`.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

from checkwise.errors import InputError
from checkwise.words import shown

# Matched against the whole words of a name: `photo_test`, `TestSet`, `ood-2`, not `contest`.
HELD_OUT_WORDS = (
    "test", "tests", "testing", "testset", "testsets", "testdata", "tst",
    "target", "targets", "tgt", "ood", "unseen",
    "held ?outs?", "hold ?outs?", "left ?out", "leave ?out", "kept ?out", "with ?held", "excluded",
    "not ?seen", "never ?seen",
    "out of distribution", "out of dist", "out of domain", "out of sample", "out domain",
)  # fmt: skip
# Folders of runs with these names are not entered. `test` is not among them: unlike a validation
# set, a folder of that name is as often a trial run.
TARGET_FOLDERS = ("target", "targets", "held out", "heldout")

# The same where letters of any case run together: `TESTset`, `OoD2`, `oodval`, `outofdomain`,
# `evaltest`. Before and after `test` only words for sets count: `latest`, `contest` and `testify`
# are no targets.
_RUN_TOGETHER = re.compile(
    r"(?:eval(?:uation)?|val(?:id(?:ation)?)?|dev|train|mini|tiny|small|full|sub|final|hidden|blind"
    r"|is|near|far|new|old|real)?"
    r"(?:(?:tests?|testing|tst|targets?|tgts?)"
    r"(?:(?:sub)?sets?|data(?:sets?|loaders?)?|loaders?|dom|domains?|envs?|splits?|folds?"
    r"|part(?:ition)?s?|sites?|ood|evals?|vals?|dev|mini|small|full|hard|easy|clean|v|[a-d])?"
    r"|(?:ood|unseen|notseen|heldout|withheld|holdout|leftout|leaveout|keptout|outofd|outofsample|outdomain)"
    r"[^\W\d_]*)"
)
_HELD_OUT = re.compile(rf"\b(?:{'|'.join(HELD_OUT_WORDS)})\b")
_STEM = re.compile("test|tst|target|tgt|ood|seen|held|out|excluded", re.IGNORECASE)  # of all these
# `t e s t`, `o_o_d`: single letters, of which a reader makes a word. No sign is tried twice.
_SPACED = re.compile(r"(?<![^\W\d_])[^\W\d_](?:[\W_]++[^\W\d_](?![^\W\d_])){2,}+")
# `A o.o.d.`, `U.S. t.e.s.t.`: those of them that the same signs join.
_ALIKE = re.compile(r"(?<![^\W\d_])[^\W\d_]([\W_]{1,3})[^\W\d_](?:\1[^\W\d_])+(?![^\W\d_])")
_JOINTS = re.compile(r"[\W_]")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+")
# Letters of other scripts that look like Latin ones; those of Latin itself have it in their names.
_LOOK_ALIKE = str.maketrans(
    "ɑаеорсухѕіјһԁӏтгпкмԝАВЕКМНОРСТУХЅІЈαειουνρτκχγΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսոհցᎢᎬᏚᎠᎪᎻᏞꓔꓰꓢꓮꓓꓡꓳꓴꓠꓖꓣꓧ",
    "aaeopcyxsijhdltrnkmwABEKMHOPCTYXSIJaeiouvptkxyABEZHIKMNOPTYXounhgTESDAHLTESADLOUNGRH",
)
_LATIN = re.compile(r"LATIN (?:(SMALL) |CAPITAL )?LETTER (?:[A-Z]+ )*([A-Z])(?: WITH|$)")
_FILLERS = "\u115f\u1160\u3164\u2800"  # letters and signs that show nothing
_TURNING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def words(name: str) -> list[str]:
    """The words of a name in small letters; digits, signs and capitals separate them.

    Example:
        >>> words("OODPhoto_test-2")
        ['ood', 'photo', 'test']
    """
    return [word.lower() for word in _WORD.findall(_visible(name))]


def looks_held_out(name: str) -> bool:
    """Whether a validation set of this name is taken for a target.

    Example:
        >>> [name for name in ("Test", "ood-photo", "photo_test2", "held out", "contest", "latest")
        ...  if looks_held_out(name)]
        ['Test', 'ood-photo', 'photo_test2', 'held out']
    """
    plain = _as_it_looks(name)
    forms = _forms(plain)
    if plain == name and not any(_STEM.search(form.replace(".", "")) for form in forms):
        return False
    if _TURNING.search(name) and looks_held_out(plain[::-1]):
        return True
    return any(
        _HELD_OUT.search(" ".join(words(form))) or any(map(_runs_together, _runs(form)))
        for form in forms
    )


def is_held_out_word(name: str, beside: Collection[str] = ()) -> bool:
    """Whether a name is just such a word, as `test` or `Held-Out`, or has only ``beside`` with it.

    Example:
        >>> is_held_out_word("Test 2"), is_held_out_word("test_set"), is_held_out_word("test_lr")
        (True, False, False)
        >>> is_held_out_word("TestSet", ["set"]), is_held_out_word("testset", ["set"])
        (True, True)
    """
    plain = _as_it_looks(name)
    if _TURNING.search(name) and is_held_out_word(plain[::-1], beside):
        return True
    forms = _forms(plain)
    said = [_HELD_OUT.sub(" ", " ".join(words(form))).split() for form in forms]
    return looks_held_out(plain) and any(
        all(word in beside or _runs_together(word) for word in one)
        for one in (*said, *map(_runs, forms))
    )


def _forms(plain: str) -> set[str]:
    """A name as it is, and with single letters read as words."""
    joined = (one.sub(lambda at: _JOINTS.sub("", at[0]), plain) for one in (_SPACED, _ALIKE))
    return {plain, *joined}


def _runs(plain: str) -> list[str]:
    """What stands between digits and signs, in small letters; `o.o.d.` is one run."""
    return re.findall(r"[^\W\d_]+", re.sub(r"\b(\w)\.", r"\1", plain).casefold())


def _runs_together(run: str) -> bool:
    return _RUN_TOGETHER.fullmatch(run) is not None


def is_target_folder(name: str) -> bool:
    """Whether the search for runs skips a folder of this name."""
    return " ".join(words(name)) in TARGET_FOLDERS


def as_names(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """One name or several as a tuple."""
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(str(name) for name in names)


def same_name(one: str, other: str) -> bool:
    """Whether two names differ in nothing but case, space or how a whole number was written."""
    return folded(one) == folded(other)


def folded(name: str) -> str:
    """A name without what ``same_name`` ignores."""
    plain = "".join(_visible(name).casefold().split())
    return re.sub(r"^(-?\d+)\.0+$", r"\1", plain)  # pandas writes 2.0 beside a gap


def _letters(name: str) -> str:
    """The same, without other signs and leading zeros; a sign before a digit counts."""
    letters = re.sub(r"[^\w+-]|_|[+-](?!\d)", "", folded(name))
    return re.sub(r"(?<!\d)0+(?=\d)", "", letters)


def _visible(name: str) -> str:
    """A name in one Unicode form, without invisible characters."""
    plain = unicodedata.normalize("NFKC", name)
    return "".join(sign for sign in plain if unicodedata.category(sign) != "Cf")


def _as_it_looks(name: str) -> str:
    """A name in the Latin letters that a reader takes it for, without marks and fillers."""
    if not (name.isascii() and name.isprintable()):
        signs = unicodedata.normalize("NFKD", name)
        name = "".join(
            _latin(sign)
            for sign in signs.translate(_LOOK_ALIKE)
            if sign not in _FILLERS
            and (sign.isspace() or unicodedata.category(sign) not in ("Cc", "Cf", "Mn", "Me"))
        )
    return name


def _latin(sign: str) -> str:
    found = None if sign.isascii() else _LATIN.search(unicodedata.name(sign, ""))
    return sign if found is None else found[2].lower() if found[1] else found[2]


def check_spelling(name: str, known: Iterable[str], where: str) -> None:
    """Refuse a held-out name that is a known one but for case, space or other signs."""
    known = frozenset(known)
    form = folded if name in known else _letters
    plain = form(name)
    alike = [domain for domain in _by_form(form, known).get(plain, ()) if domain != name]
    if alike and (plain or form is folded):
        raise InputError(
            f"Expected the held-out domain as it is written among the domains, but got "
            f"{shown(name)} beside the domain {min(alike)!r} in {where}: write both the same way.",
            code="ambiguous",
        )


@lru_cache(maxsize=8)
def _by_form(form: Callable[[str], str], known: frozenset[str]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for name in known:
        names.setdefault(form(name), []).append(name)
    return names


def check_held_out(wanted: Iterable[str], known: Collection[str], where: str) -> None:
    """Refuse a name to hold out that matches no domain, or one only apart from case or space."""
    there = frozenset(known)
    for name in wanted:
        check_spelling(name, there, where)
        if name not in there:
            raise InputError(
                f"Expected the held-out domain {name!r} among {', '.join(known)} in {where}: "
                "check the name; for several, repeat --held-out.",
                code="unknown",
            )


def check_sources(wanted: Iterable[str], known: Collection[str], where: str) -> None:
    """Refuse ``--source`` names that are not among the sets that could be validation."""
    known = frozenset(known)
    for name in wanted:
        if name not in known:
            raise InputError(
                f"Expected --source to name a validation set of {where} "
                f"({', '.join(sorted(known))}), but got {name!r}: check the name; a target that "
                "the input or --held-out names cannot be a source.",
                code="unknown",
            )


@dataclass(frozen=True)
class Sides:
    """Validation sets to choose by, and those that are held out because of their names."""

    sources: tuple[str, ...]
    by_name: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What the answer says of the sets held out by name."""
        if not self.by_name:
            return ()
        return (
            f"held out because of the name: {', '.join(self.by_name)} "
            f"(if validation, {as_source(self.by_name[0])})",
        )


def as_source(name: str) -> str:
    """How to say that a set is validation, whatever its name."""
    return f"add --source {shlex.quote(name)}, in Python sources={name!r}"


def divide(
    names: Iterable[str],
    *,
    where: str,
    held_out: Collection[str] = (),
    sources: Iterable[str] = (),
    declared: Collection[str] = (),
    beside: Iterable[str] = (),
) -> Sides:
    """Divide sets into sources and those whose names look held out.

    Args:
        names: the sets left after what the input holds out.
        where: the input, for messages.
        held_out: names that the caller holds out; each has to be among ``names`` or ``beside``.
        sources: names that the caller calls validation; each has to be among those left.
        declared: names that the input itself calls sources, as with ``role`` = ``source``.
        beside: further names that the input holds out itself.

    Example:
        >>> divide(["art", "photo", "test"], where="run.csv")
        Sides(sources=('art', 'photo'), by_name=('test',))
        >>> divide(["art", "test"], sources=["test"], where="run.csv").sources
        ('art', 'test')
    """
    names = set(names)
    check_held_out(held_out, sorted({*names, *beside}), where)
    left = sorted(names.difference(held_out))
    if not left:
        raise InputError(
            f"Expected a validation set, but none of {where} is left after --held-out and what it "
            "holds out itself: hold out fewer.",
            code="empty",
        )
    check_sources(sources, left, where)
    known_sources = {*sources, *declared}
    by_name = tuple(n for n in left if n not in known_sources and looks_held_out(n))
    if len(by_name) == len(left):
        raise InputError(
            f"Expected a validation set, but {where} has only "
            f"{' and '.join(repr(name) for name in by_name)}: if that is validation and not a "
            f"target, {as_source(by_name[0])}.",
            code="held-out",
        )
    return Sides(tuple(name for name in left if name not in by_name), by_name)
