"""What the families' histories share: lists of names, windows cut to answers of bearable size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from derivdata import times
from derivdata.transport import Answer

_ROWS_PER_ANSWER = 250_000
"""Points of some 75 bytes each: about 20 MB."""

_VENUES = 50
_RAW_STEP = pd.Timedelta(1, "min")


def names(value: str | Sequence[str], argument: str) -> list[str]:
    """A list of names from one name or several.

    Raises
    ------
    TypeError, ValueError
        Something is not text, the list is empty, or a name stands twice.
    """
    found = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(name, str) and name for name in found):
        raise TypeError(f"{argument} must be a name or a list of names, not {value!r}")
    if not found or len(set(found)) < len(found):
        raise ValueError(f"{argument} must name at least one, and each once: {found!r}")
    return found


def pieces(
    window: times.Window, resolution: str | None, exchanges: str | Sequence[str] | None
) -> list[times.Window]:
    """The window as spans that one answer each can carry.

    Cuts lie on multiples of the span since 1970, so that overlapping windows share their pieces in the
    cache. A window whose resolution the server chooses is never cut: that would change the choice.
    """
    if resolution is None:
        return [window]
    step = times.resolution(resolution) or _RAW_STEP
    venues = _VENUES if exchanges is None or exchanges == "all" else len(names(exchanges, "exchanges"))
    span = step * (_ROWS_PER_ANSWER // venues)
    epoch = pd.Timestamp(0, tz="UTC").as_unit("us")
    first, last = (window.start - epoch) // span + 1, -((epoch - window.end) // span)
    cuts = [window.start, *(epoch + span * n for n in range(int(first), int(last))), window.end]
    return [times.Window(a, b) for a, b in pairwise(cuts) if a < b]


def asked(window: times.Window) -> dict[str, pd.Timestamp]:
    """The parameters of an absolute window."""
    return {"start": window.start, "end": window.end}


def inside(answer: Answer[Any], stamps: pd.DatetimeIndex) -> np.ndarray[Any, Any]:
    """Which instants lie in the half-open window that the answer was asked for.

    The document does not say whether ``end`` is part of the range; a point on the cut of two pieces
    would otherwise come twice.
    """
    query = dict(answer.request.query)
    start, end = times.instant(query["start"]), times.instant(query["end"])
    return np.asarray((stamps >= start) & (stamps < end))
