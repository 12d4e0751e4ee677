"""Parameters that several endpoints share."""

from __future__ import annotations

from derivdata.support.times import RESOLUTIONS
from derivdata.tables.endpoints.model import Param, ParamKind

SYMBOL = Param("symbol", ParamKind.TEXT, "Base symbol.", required=True)
PATH_SYMBOL = Param("symbol", ParamKind.TEXT, "Base symbol.", required=True, in_path=True)
EXCHANGES = Param("exchanges", ParamKind.LIST, "Venues' slugs, or 'all'.")
START = Param("start", ParamKind.INSTANT, "Start of the range; 7 days before its end unless given.")
END = Param("end", ParamKind.INSTANT, "End of the range; now unless given.")
RESOLUTION = Param(
    "resolution",
    ParamKind.TEXT,
    "Sampling step; left out, the service chooses by the length of the range.",
    choices=("raw", *RESOLUTIONS),
)
RANGE = Param(
    "range",
    ParamKind.TEXT,
    "Rolling window that ends now.",
    choices=("1d", "7d", "30d", "90d"),
    documented=False,
)
WEEK_TO_QUARTER = Param(
    "range",
    ParamKind.TEXT,
    "Rolling window that ends now.",
    default="7d",
    choices=("7d", "30d", "90d"),
    documented=False,
)

AGGREGATE_SECONDS = 600.0
EXCHANGE = Param("exchange", ParamKind.TEXT, "Venue's slug.", required=True)
PATH_EXCHANGE = Param("exchange", ParamKind.TEXT, "Venue's slug.", required=True, in_path=True)
LIMIT = Param("limit", ParamKind.INTEGER, "Most entries in one answer.")
DAYS = Param(
    "range", ParamKind.DAYS, "Rolling window that ends now, 1d to 90d; longer from Pro.", default="30d"
)
WINDOW = (START, END, RANGE)
NOT_BOTH = (("range", "start"), ("range", "end"))
"""A rolling window and an absolute one are not asked for together."""
