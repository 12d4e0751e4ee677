"""Trading hours of the exchanges behind real-world assets.

The document lists what the response holds and not its fields. The shape that is read is the local service's;
anything else is a `SchemaError` that points to `derivdata.raw`.
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
        Ids, short names or market identifier codes (``"XNYS"``); None is all.

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
        No answer, or one of another shape.

    Notes
    -----
    ``GET /rwa/market-hours``, Pro and above.
    """
    answer = transport.get(endpoints.RWA_MARKET_HOURS, {"exchange": venues}, into=_Hours)
    return tabulate(tables.TABLES["rwa_market_hours"], [answer], _columns)


def _columns(answer: Answer[_Hours]) -> dict[str, Any]:
    intervals = [
        (x, s.start, s.end, s.session, s.is_tradable) for x in answer.body.exchanges for s in x.sessions
    ] + [(x, h.start, h.end, "holiday", False) for x in answer.body.exchanges for h in x.holidays]
    owners = [x for x, *_ in intervals]
    return {
        "exchange_id": [x.id for x in owners],
        "start": [start for _, start, *_ in intervals],
        "session": [session for *_, session, _ in intervals],
        "time": pd.DatetimeIndex([answer_time(answer)]).repeat(len(intervals)),
        "end": [end for _, _, end, *_ in intervals],
        "is_tradable": [tradable for *_, tradable in intervals],
        "name": [x.name for x in owners],
        "short_name": [x.short_name for x in owners],
        "mic": [x.mic for x in owners],
        "timezone": [x.timezone for x in owners],
        "is_tradable_now": [x.is_tradable for x in owners],
        "next_session_start": [x.next_session.start if x.next_session else None for x in owners],
    }
