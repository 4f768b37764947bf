"""Foreign arrays as NumPy's: what holds plain numbers is read, anything else is refused by name.

Nothing here imports torch, scipy or pandas; their objects are known by what they can do.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.words import shown

Array = np.ndarray[Any, np.dtype[Any]]


def to_numpy(values: Any, name: str = "values") -> Array:
    """An array of the same values; tensors come to the CPU, bfloat16 and float8 are widened.

    Args:
        values: an array, a tensor on any device, a nested list, a column or a data frame.
        name: what the values are, for the message.

    Raises:
        InputError: the values are ragged, sparse, masked, quantised, on no device, or no array.

    Example:
        >>> to_numpy([[1, 2], [3, 4]]).shape
        (2, 2)
    """
    _refuse_unreadable(values, name)
    try:
        array = _converted(values)
    except Exception as error:
        # Whatever a foreign object raises while it is converted means the same to the caller.
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise InputError(
            f"Expected {name} as a dense array of numbers, but got {type(values).__name__} that "
            f"is none ({reason}). Convert it to a NumPy array; rows need equal lengths."
        ) from None
    if array.dtype.kind in "iuf" and _holds_boolean(values):
        raise InputError(f"Expected {name} as numbers, but got true or false among them.")
    # JAX and ml_dtypes register bfloat16 and float8 with NumPy as kinds of their own.
    narrow = (array.dtype.kind == "V" or array.dtype.itemsize == 1) and "float" in array.dtype.name
    return array.astype(np.float32) if narrow else array


def sliceable(values: Any, name: str) -> Any:
    """The values untouched where slices of them are rows, so that each can be converted by itself.

    Others, such as data frames, are converted whole.
    """
    _refuse_unreadable(values, name)
    plain = isinstance(values, np.ndarray) and not isinstance(values, np.ma.MaskedArray)
    return values if plain or hasattr(values, "detach") else to_numpy(values, name)


def to_floats(values: Any, name: str) -> Array:
    """The same values in double precision; text and exact numbers are read, booleans refused.

    Raises:
        InputError: as for :func:`to_numpy`, or a value that is no real number.

    Example:
        >>> to_floats(["0.5", 1], "accuracy")
        array([0.5, 1. ])
    """
    array = to_numpy(values, name)
    if array.dtype.kind in "iuf":
        with np.errstate(over="ignore"):  # a long double beyond float64 becomes inf
            return array.astype(np.float64)
    if array.dtype.kind not in "OUT":
        raise InputError(
            f"Expected numbers as {name}, but got {array.dtype} values. Convert them to float64."
        )
    listed = array.ravel().tolist()
    for value in listed:
        if not is_number(value):
            raise InputError(f"Expected a number as {name}, but got {shown(value)}. Correct it.")
    return np.array([float(value) for value in listed]).reshape(array.shape)


def is_number(value: object) -> bool:
    """Whether a single value, or its text, is a real number; true and false are none."""
    if isinstance(value, bool | np.bool_ | np.datetime64 | np.timedelta64 | bytes):
        return False
    try:
        float(value)  # type: ignore[arg-type]
    except Exception:
        return False
    return True


def _refuse_unreadable(values: Any, name: str) -> None:
    problem = _problem(values)
    if problem is not None:
        raise InputError(f"Expected {name} as a dense array of numbers, but got {problem}")


def _problem(values: Any) -> str | None:
    """Why values that look like an array hold no plain numbers, and what to do."""
    if "numpy.ma" in sys.modules and isinstance(values, np.ma.MaskedArray):
        if not np.ma.is_masked(values):
            return None
        return "a masked array with masked values. Drop those examples, or fill them in."
    if hasattr(values, "nnz") and hasattr(values, "tocsr"):
        return "a sparse array. Pass its .toarray()."
    if isinstance(values, list | tuple):
        return next((problem for value in values if (problem := _problem(value))), None)
    if not hasattr(values, "detach"):
        return None
    if str(getattr(values, "layout", "torch.strided")) != "torch.strided":
        return "a sparse tensor. Pass its .to_dense()."
    if getattr(values, "is_meta", False):
        return "a tensor on the meta device, which holds no values. Compute it on a real device."
    if getattr(values, "is_quantized", False):
        return "a quantised tensor. Pass its .dequantize()."
    if getattr(values, "is_nested", False):
        return "a nested tensor. Pass one row of equal length per example."
    return None


def _holds_boolean(values: Any) -> bool:
    """Whether a nested list mixes true or false into its numbers, which NumPy reads as 1 and 0."""
    if isinstance(values, list | tuple):
        return any(_holds_boolean(value) for value in values)
    return isinstance(values, bool | np.bool_)


def _converted(values: Any) -> Array:
    if hasattr(values, "detach"):
        tensor = values.detach().cpu()
        dtype = str(tensor.dtype)
        tensor = tensor.float() if "bfloat16" in dtype or "float8" in dtype else tensor
        return np.asarray(tensor.resolve_conj().resolve_neg().numpy())
    array = np.asarray(values)
    if array.dtype == object and array.ndim == 0 and hasattr(values, "__dlpack__"):
        return np.from_dlpack(values)
    if array.dtype == object and array.ndim == 0:
        raise TypeError("it has no rows")
    return array
