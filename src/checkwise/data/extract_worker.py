"""A child process of ``extract_pool``: batches on standard input, features on standard output.

Started as ``python -m checkwise.data.extract_worker``. The first message says what to import.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

import numpy as np

from checkwise.data.array_pipe import receive, receive_array, send_array


def main() -> None:
    """Serve batches until standard input ends."""
    # What the extractor prints must not land among the features.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    job = json.loads(receive(sys.stdin.buffer))
    sys.path[:] = job["path"]
    module, _, function = job["extract"].partition(":")
    extract = getattr(importlib.import_module(module), function)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    while True:
        try:
            batch = receive_array(sys.stdin.buffer)
        except EOFError:
            return
        send_array(results, np.asarray(extract(batch)))


if __name__ == "__main__":
    main()
