"""Tables, panels and fits in, matplotlib ``Axes`` out: one function per question.

Every function draws on the ``ax`` that it is given or on a new figure, labels its axes with units, writes
times in UTC, and states the data's source below the axes.
"""

from __future__ import annotations

from derivdata.plot.options import smile, term_structure
from derivdata.plot.perpetuals import funding_history, funding_spreads, liquidations, oi_share

__all__ = [
    "funding_history",
    "funding_spreads",
    "liquidations",
    "oi_share",
    "smile",
    "term_structure",
]
