"""Trading hours of the exchanges behind real-world assets.

The API document describes the content of the response, but not its fields. The library expects the format of
the local service. Other responses raise a `SchemaError`; `derivdata.raw` returns them undecoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pandas as pd

from derivdata import tables
from derivdata.client import transport
from derivdata.client.reading import Envelope, response_time
from derivdata.client.retrieval import tabulate
from derivdata.client.transport import DecodedResponse
from derivdata.support.arguments import typed
from derivdata.tables import endpoints

__all__ = ["market_hours"]
__dir__ = __all__.copy


class _Session(msgspec.Struct):
    start: str
    end: str
    is_tradable: bool
    session: str = "regular"


class _Holiday(msgspec.Struct):
    start: str
    end: str
    name: str = ""


class _NextSession(msgspec.Struct):
    start: str


class _Exchange(msgspec.Struct):
    id: str
    sessions: list[_Session]
    name: str | None = None
    short_name: str | None = None
    mic: str | None = None
    timezone: str | None = None
    is_tradable: bool | None = None
    next_session: _NextSession | None = None
    holidays: list[_Holiday] = []

    @property
    def state(self) -> tuple[Any, ...]:
        """Facts of the exchange that its rows repeat, in the order of `_STATE`."""
        opens = None if self.next_session is None else self.next_session.start
        return self.id, self.name, self.short_name, self.mic, self.timezone, self.is_tradable, opens


_STATE = ("exchange_id", "name", "short_name", "mic", "timezone", "is_tradable_now", "next_session_start")
_INTERVAL = ("start", "end", "session", "is_tradable")


class _Hours(Envelope):
    timestamp: str
    exchanges: list[_Exchange]


@typed
def market_hours(venues: str | Sequence[str] | None = None) -> pd.DataFrame:
    """Return sessions and holidays of the exchanges behind real-world assets.

    Parameters
    ----------
    venues
        Exchanges, by ID, short name or market identifier code (``"XNYS"``); None returns all.

    Returns
    -------
    DataFrame, table ``rwa_market_hours``
        One row per interval ``[start, end)`` in UTC: sessions as the exchange names them, and upcoming
        holidays (``session`` is ``"holiday"``, not tradable). ``is_tradable_now`` and ``next_session_start``
        are the exchange's state at ``time``, repeated in its rows. Names and states that the response does
        not have are missing.

    Raises
    ------
    TierError
        The key is below Pro.
    FetchError, SchemaError
        The request failed, or the response has another format.

    Notes
    -----
    ``GET /rwa/market-hours``, Pro and above.
    """
    response = transport.get(endpoints.RWA_MARKET_HOURS, {"exchange": venues}, into=_Hours)
    return tabulate(tables.TABLES["rwa_market_hours"], [response], _columns)


def _columns(response: DecodedResponse[_Hours]) -> dict[str, Any]:
    rows: list[tuple[Any, ...]] = []
    for exchange in response.body.exchanges:
        state = exchange.state
        rows += [(*state, s.start, s.end, s.session, s.is_tradable) for s in exchange.sessions]
        rows += [(*state, holiday.start, holiday.end, "holiday", False) for holiday in exchange.holidays]
    frame = pd.DataFrame(rows, columns=[*_STATE, *_INTERVAL], dtype=object)
    columns = {str(name): values.tolist() for name, values in frame.items()}
    return columns | {"time": pd.DatetimeIndex([response_time(response)]).repeat(len(rows))}
