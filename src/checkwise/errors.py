"""The errors a caller can act on; everything else is a bug.

Every message says what was expected, what came, where, and what to do. Its words may change; its
``code`` is the kind of mistake, for programs and tests.
"""

from __future__ import annotations

from typing import Literal

Code = Literal[
    "ambiguous",  # there is more than one reading: say which
    "busy",  # another process has it
    "damaged",  # a file of checkwise does not read back as it was written
    "differs",  # two things that should agree do not
    "empty",  # nothing is left to work on
    "exists",  # something is there that would be written over
    "format",  # the content of a foreign file is not what it should be
    "held-out",  # it may be test data
    "missing",  # a file, column, metric, set or record is needed and not there
    "outside",  # a path leads out of the folder it belongs to, or to what is not ours
    "system",  # the system refused: no space, no permission
    "unknown",  # no such name
    "unsupported",  # it is understood, and cannot be done
    "value",  # an argument, option or cell is not of the right kind, shape or range
]


class CheckwiseError(Exception):
    """Base of every error raised on purpose; the command line prints it as one line."""

    code: Code = "value"


class InputError(CheckwiseError, ValueError):
    """A value, array, table or file is not valid input; ``code`` says in which way."""

    def __init__(self, message: str, *, code: Code = "value") -> None:
        super().__init__(message)
        self.code = code


class MissingMetricError(CheckwiseError, KeyError):
    """A rule needs a metric that the trajectory does not carry."""

    code = "missing"

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would quote the whole sentence


class MissingExtraError(CheckwiseError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""

    code = "missing"


class NoGuaranteeError(CheckwiseError):
    """No bound can be stated for this selection; the message says why."""

    code = "unsupported"


class CheckwiseWarning(UserWarning):
    """Something is probably not what you meant, but can be computed."""
