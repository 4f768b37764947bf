"""A tiny study on the embedded digits: four runs of five updates."""

from __future__ import annotations

from pathlib import Path

TINY = """
name = "tiny"
role = "development"

[data]
dataset = "RotatedMNIST"
held_out = ["0", "75"]

[network]
kind = "digits"

[runs]
algorithms = ["ERM", "VREx"]

[training]
steps = 5
record_every = 2

[hparams]
batch_size = 8
"""


def write_tiny(folder: Path, *changes: tuple[str, str]) -> Path:
    """The study file, with some of its text replaced."""
    text = TINY
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path = folder / "tiny.toml"
    path.write_text(text)
    return path
