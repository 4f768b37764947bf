"""Smooth calibration error (smECE) of the top label: no bins, and its own bandwidth.

It is not the soft ECE, whose formula is in `report`.

Błasiok and Nakkiran (2023). With residuals r_i = [correct] − u_i at the confidences u_i,

    smECE_σ = ∫₀¹ |r̂_σ(t)| dt,   r̂_σ(t) = (1/n) Σ_i r_i K_σ(t, u_i)

where K_σ is a Gaussian that is reflected at 0 and 1. smECE_σ falls as σ grows; smECE is the value
at which it equals σ, so that no bandwidth has to be chosen.

The reflected Gaussian is the heat kernel of [0, 1]: the k-th cosine coefficient of the residuals is
multiplied by exp(−(πkσ)²/2). One pass over the examples finds the coefficients; every further
bandwidth is a Fourier transform.
"""

from __future__ import annotations

from math import pi
from typing import Final

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Cosines that are enough for bandwidths from REACH / waves on: the next has a factor of 1e-9.
WAVES: Final = (256, 2048)
REACH: Final = 2.05
_HALVINGS: Final = 40
_FINE: Final = 64
_AT_ONCE: Final = 1 << 13  # examples


def smece(probs: FloatArray, labels: IntArray) -> float:
    """Smooth calibration error of the top label: absolute gap, no bins, its own bandwidth."""
    confidence = probs.max(axis=1)
    return smooth_ece(confidence, (probs.argmax(axis=1) == labels) - confidence)


def smooth_ece(confidence: FloatArray, residual: FloatArray) -> float:
    """smECE from confidences in [0, 1] and residuals; below 0.001 it is that of σ = 0.001.

    Example:
        >>> round(smooth_ece(np.array([0.75]), np.array([0.25])), 6)
        0.25
    """
    for count in WAVES:
        waves = cosine_coefficients(confidence, residual, count)
        narrow, wide = REACH / count, 1.0
        least = error_at(waves, narrow)
        if least > narrow:
            break
    else:
        return least
    for _ in range(_HALVINGS):
        middle = (narrow + wide) / 2
        if error_at(waves, middle) > middle:
            narrow = middle
        else:
            wide = middle
    return error_at(waves, (narrow + wide) / 2)


def cosine_coefficients(
    confidence: FloatArray, residual: FloatArray, count: int = WAVES[-1]
) -> FloatArray:
    """(1/n) Σ_i r_i cos(πk u_i) for k = 0, 1, …"""
    # cos((a + b)θ) = cos aθ cos bθ − sin aθ sin bθ: two matrix products over the examples.
    fine = np.arange(_FINE)[:, None]
    coarse = np.arange(0, count, _FINE)[:, None]
    waves = np.zeros((len(coarse), _FINE))
    for start in range(0, len(confidence), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        angle, r = pi * confidence[rows], residual[rows]
        waves += (r * np.cos(coarse * angle)) @ np.cos(fine * angle).T
        waves -= (r * np.sin(coarse * angle)) @ np.sin(fine * angle).T
    return waves.ravel() / len(confidence)


def error_at(waves: FloatArray, bandwidth: float) -> float:
    """smECE_σ: the mean of |r̂_σ| over a fine grid."""
    k = np.arange(len(waves))
    damped = waves * np.exp(-0.5 * (pi * bandwidth * k) ** 2)
    # r̂(t) = a_0 + 2 Σ_k a_k cos(πkt): the inverse transform of an even sequence.
    grid = 4 * len(waves)
    spectrum = np.zeros(grid + 1)
    spectrum[: len(waves)] = damped
    values = np.fft.irfft(spectrum, 2 * grid)[: grid + 1] * 2 * grid
    ends = (abs(values[0]) + abs(values[-1])) / 2
    return float((np.abs(values[1:-1]).sum() + ends) / grid)
