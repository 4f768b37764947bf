"""A child process of ``extract_pool``: batches on standard input, features on standard output.

Started as ``python -m checkwise.study.train.extract_worker``. The first message names the
backbone and the part of it that learns.
"""

from __future__ import annotations

import json
import os
import sys

import torch

from checkwise.study.train.extract import extractor, receive, receive_array, send_array


def main() -> None:
    """Serve batches until standard input ends."""
    # What a backbone prints must not land among the features.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    job = json.loads(receive(sys.stdin.buffer))
    sys.path[:] = job["path"]
    torch.set_num_threads(1)
    extract = extractor(job["backbone"], job["tune"], "cpu")
    while True:
        try:
            batch = receive_array(sys.stdin.buffer)
        except EOFError:
            return
        send_array(results, extract(batch))


if __name__ == "__main__":
    main()
