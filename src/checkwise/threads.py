"""The environment of a child process that computes on one thread."""

from __future__ import annotations

from typing import Final

ONE_THREAD: Final = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # By default malloc returns large blocks to the system and faults their pages in again.
    "MALLOC_TRIM_THRESHOLD_": str(2**33),
    "MALLOC_MMAP_THRESHOLD_": str(2**33),
    "MALLOC_TOP_PAD_": str(2**26),
}
