"""Records of event files that are known by their bytes.

Writers repeat themselves: apart from time, step and value, every record of a tag has the same
bytes. Once one of them is parsed, the others need not be.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from checkwise.readers.logs.events.fields import Event, is_one_summary

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_LONGEST, _MOST, _MOST_LAYOUTS = 512, 1 << 14, 4


@dataclass
class Shapes:
    """The shapes met so far.

    A layout is the width of the value in bytes and how many bytes follow it. A shape is all that
    stands behind the step but the value; it belongs to the number of a tag.
    """

    layouts: dict[tuple[int, int], dict[bytes, int]] = field(default_factory=dict)

    def known(self, data: bytes, bodies: Integers, ends: Integers) -> tuple[Integers, Floats]:
        """Number of the tag whose shape each record has (-1 for none), and its value.

        Args:
            data: what holds the records.
            bodies: where that which follows the step of each record starts.
            ends: where each record ends.
        """
        numbers, values = np.full(len(ends), -1, np.int64), np.zeros(len(ends))
        for (width, tail), shapes in self.layouts.items():
            places = ends - tail - width
            rest = np.flatnonzero((numbers < 0) & (places > bodies))
            spans = zip(bodies[rest].tolist(), places[rest].tolist(), strict=True)
            behind = width + tail
            numbers[rest] = [
                shapes.get(data[body:place] + data[place + width : place + behind], -1)
                for body, place in spans
            ]
            rest = rest[numbers[rest] >= 0]
            raw = np.frombuffer(data, np.uint8)[places[rest, None] + np.arange(width)]
            with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
                values[rest] = raw.view(f"<f{width}")[:, 0]
        return numbers, values

    def learn(self, data: bytes, body: int, end: int, event: Event, number: int) -> None:
        """Remember the shape of an event that is one float of the tag with this number."""
        scalar = event.scalars[0]
        if scalar.span is None or end - body > _LONGEST or not is_one_summary(data, body, end):
            return
        first, last = scalar.span
        layout = last - first, end - last
        if layout not in self.layouts and len(self.layouts) == _MOST_LAYOUTS:
            return
        shapes = self.layouts.setdefault(layout, {})
        if len(shapes) < _MOST:
            shapes[data[body:first] + data[last:end]] = number
