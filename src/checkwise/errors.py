"""The errors a caller can act on; everything else is a bug.

Every message says what was expected, what came, where, and what to do.
"""

from __future__ import annotations


class CheckwiseError(Exception):
    """Base of every error raised on purpose; the command line prints it as one line."""


class InputError(CheckwiseError, ValueError):
    """A value, array, table or file is not valid input."""


class MissingMetricError(CheckwiseError, KeyError):
    """A rule needs a metric that the trajectory does not carry."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would quote the whole sentence


class MissingExtraError(CheckwiseError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class NoGuaranteeError(CheckwiseError):
    """No bound can be stated for this selection; the message says why."""


class CheckwiseWarning(UserWarning):
    """Something is probably not what you meant, but can be computed."""
