"""Keras with a backend, or an error that says what is missing."""

from __future__ import annotations

from checkwise.errors import MissingExtraError, naming_extras

try:
    with naming_extras():
        import keras
        from keras.callbacks import Callback
except ModuleNotFoundError as error:  # Keras looks for tensorflow unless told otherwise
    raise MissingExtraError(
        f"Expected a backend for Keras, but {error.name} is not installed: set "
        "KERAS_BACKEND=torch, or the backend that you have, before Keras is imported."
    ) from error

__all__ = ["Callback", "keras"]
