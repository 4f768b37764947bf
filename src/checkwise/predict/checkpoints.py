"""Which files or folders of a folder are checkpoints, and of which step: by the number in the name.

A *family* is names that differ in their numbers only, written as a pattern: ``model_{step}.pt``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from checkwise.errors import InputError
from checkwise.readers import matching, names_in, parse
from checkwise.words import counted, is_plain

SUFFIXES: Final = (
    ".safetensors", ".pth.tar", ".pt", ".pth", ".ckpt", ".bin", ".weights.h5", ".keras", ".h5",
    ".hdf5", ".msgpack", ".onnx", ".pkl", ".pickle", ".joblib", ".tar", ".npz",
)  # fmt: skip
# Words before the number of a folder that holds a checkpoint; orbax writes the number alone.
FOLDER_WORDS: Final = ("", "checkpoint", "ckpt", "step", "epoch", "iter", "iteration", "model")
_STEP_WORDS: Final = ("step", "steps", "iter", "iters", "iteration")
_EPOCH_WORDS: Final = ("epoch", "epochs")
LARGEST_STEP: Final = 10**15 - 1  # what the name of a step's folder may hold
PLACES: Final = (".", "checkpoints", "weights")  # where trainers put checkpoints, in this order
_SHARD: Final = re.compile(r"-\d+-of-\d+\.")
_NUMBER: Final = re.compile(r"(\d+)")


class Family(NamedTuple):
    """Checkpoints whose names follow one pattern, below the folder that was looked through."""

    pattern: str
    names: tuple[str, ...]


def find_checkpoints(folder: Path, pattern: str | None = None) -> dict[int, str]:
    """Step → path below ``folder``, in order of steps, of the checkpoints that follow a pattern.

    Without one there has to be one family, in the folder or where a run's folder has it. Of an
    epoch and a step in a name the step counts.
    """
    if not folder.is_dir():
        raise InputError(
            f"Expected a folder of checkpoints, but {folder} is none: check the path.",
            code="missing",
        )
    parsed = parse(pattern or _only_pattern(folder))
    if parsed.is_absolute:
        raise InputError(
            f"Expected --checkpoints below {folder}, but got {pattern!r}: write the part below it.",
            code="outside",
        )
    checkpoints: dict[int, str] = {}
    for path, numbers, _ in matching(parsed, folder):
        name = Path(path).relative_to(folder).as_posix()
        step = numbers.get("step", numbers.get("epoch", -1))
        if not 0 <= step <= LARGEST_STEP:
            raise InputError(
                f"Expected steps from 0 to {LARGEST_STEP}, but {path} is {step} by "
                f"{parsed.text!r}: correct --checkpoints."
            )
        if step in checkpoints:
            raise InputError(
                f"Expected one checkpoint per step, but {folder} holds {checkpoints[step]} and "
                f"{name}: narrow --checkpoints, now {parsed.text!r}.",
                code="ambiguous",
            )
        if not is_plain(name):
            raise InputError(
                f"Expected names without control characters, but got {name!r} in {folder}: "
                "rename it."
            )
        checkpoints[step] = name
    if not checkpoints:
        raise InputError(
            f"Expected checkpoints like {parsed.text!r} in {folder}, but found none: check "
            "--checkpoints.",
            code="missing",
        )
    return dict(sorted(checkpoints.items()))


def families_near(folder: Path) -> list[Family]:
    """Every family in the places where trainers put checkpoints."""
    return [family for place in PLACES for family in _families(folder, place)]


def _families(folder: Path, place: str) -> list[Family]:
    """The families in one place below a folder whose names look like those of checkpoints."""
    inside = folder / place
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names_in(inside) if inside.is_dir() else ():
        if _is_candidate(inside / name):
            groups.setdefault(tuple(_NUMBER.split(name)[::2]), []).append(name)
    patterns = [(_pattern(texts, names), names) for texts, names in groups.items()]
    prefix = "" if place == "." else f"{place}/"
    return [Family(prefix + text, tuple(names)) for text, names in patterns if text is not None]


def _only_pattern(folder: Path) -> str:
    """The pattern of the one family in the first place that has any."""
    present = next(filter(None, (_families(folder, place) for place in PLACES)), [])
    if len(present) == 1:
        return present[0].pattern
    if present:
        shown = ", ".join(f"{f.pattern!r} ({len(f.names)})" for f in present[:4])
        raise InputError(
            f"Expected checkpoints of one kind, but {folder} holds "
            f"{counted(len(present), 'kind')}: {shown}{', …' * (len(present) > 4)}. Add "
            "--checkpoints with one of these.",
            code="ambiguous",
        )
    raise InputError(
        f"Expected checkpoints with a number in their names in {folder}, such as "
        "step-000100.safetensors or checkpoint-500, but found none: name their pattern, as "
        "--checkpoints 'weights.{epoch}.keras'.",
        code="missing",
    )


def _is_candidate(path: Path) -> bool:
    name = path.name
    if not _NUMBER.search(_stem(name)) or _SHARD.search(name):
        return False
    if not path.is_dir():
        return name.endswith(SUFFIXES)
    return _last_word(_NUMBER.split(name)[0]) in FOLDER_WORDS


def _stem(name: str) -> str:
    suffix = max((s for s in SUFFIXES if name.endswith(s)), key=len, default="")
    return name.removesuffix(suffix)


def _last_word(text: str) -> str:
    return re.split(r"[^a-z]+", text.lower().rstrip("-_=. "))[-1]


def _pattern(texts: tuple[str, ...], names: list[str]) -> str | None:
    """The names as a pattern; None where no number is clearly a step or an epoch."""
    numbers = [[int(n) for n in _NUMBER.findall(name)] for name in names]
    inside = len(_NUMBER.findall(_stem(names[0])))
    columns = list(zip(*numbers, strict=True))
    vary = [i for i in range(inside) if len(set(columns[i])) > 1] or list(range(inside))
    words = [*map(_last_word, texts)]
    steps = [i for i in vary if words[i].endswith(_STEP_WORDS)]
    epochs = [i for i in vary if words[i].endswith(_EPOCH_WORDS)]
    if not steps and not epochs and len(vary) == 1:
        steps = vary
    if len(steps) > 1 or len(epochs) > 1 or not (steps or epochs):
        return None
    roles = {**dict.fromkeys(epochs, "{epoch}"), **dict.fromkeys(steps, "{step}")}
    first = _NUMBER.findall(names[0])
    numbered = [roles.get(i, "*" if i in vary else n) for i, n in enumerate(first)]
    return "".join(part for pair in zip(texts, [*numbered, ""], strict=True) for part in pair)
