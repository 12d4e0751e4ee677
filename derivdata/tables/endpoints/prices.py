"""The endpoint of prices over time, which is the library's own: the API document has none."""

from __future__ import annotations

from derivdata.tables.endpoints.model import Endpoint, Param, ParamKind
from derivdata.tables.endpoints.params import END, EXCHANGES, RESOLUTION, START, SYMBOL

_KIND = Param("kind", ParamKind.TEXT, "Which price.", default="mark", choices=("mark", "index", "last"))

PRICES_HISTORY = Endpoint(
    "/local/prices/history",
    "dev",
    "prices_history",
    "Mark, index or last price of one symbol over time.",
    params=(SYMBOL, START, END, EXCHANGES, _KIND, RESOLUTION),
    unit="usd",
    states_resolution=True,
)
