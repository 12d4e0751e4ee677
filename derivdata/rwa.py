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
from derivdata.client.reading import Envelope, answer_time
from derivdata.client.retrieval import tabulate
from derivdata.client.transport import Answer
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


class _Hours(Envelope):
    timestamp: str
    exchanges: list[_Exchange]


@typed
def market_hours(venues: str | Sequence[str] | None = None) -> pd.DataFrame:
    """Return sessions and holidays of the exchanges behind real-world assets.

    Parameters
    ----------
    venues
        Ids, short names or market identifier codes (``"XNYS"``); None returns all.

    Returns
    -------
    DataFrame, table ``rwa_market_hours``
        One row per interval ``[start, end)`` in UTC: sessions as the exchange names them, and upcoming
        holidays (``session`` is ``holiday``, not tradable). ``is_tradable_now`` and ``next_session_start``
        are the exchange's state at ``time``, repeated in its rows.

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
    answer = transport.get(endpoints.RWA_MARKET_HOURS, {"exchange": venues}, into=_Hours)
    return tabulate(tables.TABLES["rwa_market_hours"], [answer], _columns)


def _columns(answer: Answer[_Hours]) -> dict[str, Any]:
    # Sessions of all exchanges, then holidays of all exchanges, each with its exchange.
    exchanges: list[_Exchange] = []
    sessions: list[_Session] = []
    for exchange in answer.body.exchanges:
        exchanges += [exchange] * len(exchange.sessions)
        sessions += exchange.sessions
    for exchange in answer.body.exchanges:
        exchanges += [exchange] * len(exchange.holidays)
        sessions += [_Session(holiday.start, holiday.end, False, "holiday") for holiday in exchange.holidays]
    return {
        "exchange_id": [exchange.id for exchange in exchanges],
        "start": [session.start for session in sessions],
        "session": [session.session for session in sessions],
        "time": pd.DatetimeIndex([answer_time(answer)]).repeat(len(sessions)),
        "end": [session.end for session in sessions],
        "is_tradable": [session.is_tradable for session in sessions],
        "name": [exchange.name for exchange in exchanges],
        "short_name": [exchange.short_name for exchange in exchanges],
        "mic": [exchange.mic for exchange in exchanges],
        "timezone": [exchange.timezone for exchange in exchanges],
        "is_tradable_now": [exchange.is_tradable for exchange in exchanges],
        "next_session_start": [x.next_session.start if x.next_session else None for x in exchanges],
    }
