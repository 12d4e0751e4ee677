"""Status of collected data by venue, and checks of each venue's endpoints."""

from __future__ import annotations

import pandas as pd

from derivdata.archive import Archive
from derivdata.collect.contracts import list_contracts
from derivdata.collect.session import VenueSession
from derivdata.errors import DerivdataError, SchemaError, VenueError
from derivdata.venues.endpoint import Endpoint
from derivdata.venues.paging import walk
from derivdata.venues.record_types import Records
from derivdata.venues.registry import VENUES
from derivdata.venues.wire import us_of

__all__ = ["check", "status"]

_HOUR = pd.Timedelta(1, "h")


def status(archive: Archive, now: pd.Timestamp) -> pd.DataFrame:
    """Return per venue and table what was collected.

    Columns are the last row, rows of the last hour, the minutes since the last answer, holes between answered
    windows, windows that failed, and the last error.
    """
    rows = []
    ledger = archive.requests()
    for (exchange, table), requests in ledger.groupby(["exchange", "table"], sort=True):
        answered, failed = requests[requests["answered"]], requests[~requests["answered"]]
        recent = archive.read(table, now - _HOUR, now + _HOUR, exchanges=[exchange])
        holes = sum(
            int((one["start"].iloc[1:].to_numpy() > one["end"].iloc[:-1].to_numpy()).sum())
            for _, one in answered.sort_values("start").groupby("symbol", dropna=False)
        )
        last = answered["end"].max() if len(answered) else pd.NaT
        rows.append(
            {
                "exchange": exchange,
                "table": table,
                "last_row": recent["time"].max() if len(recent) else pd.NaT,
                "rows_last_hour": len(recent),
                "lag_minutes": round((now - last).total_seconds() / 60, 1) if last is not pd.NaT else None,
                "holes": holes,
                "failed": len(failed),
                "last_error": failed["error"].iloc[-1] if len(failed) else "",
            }
        )
    columns = "exchange table last_row rows_last_hour lag_minutes holes failed last_error".split()
    return pd.DataFrame(rows, columns=columns)


def check(session: VenueSession, symbol: str = "BTC") -> pd.DataFrame:
    """Ask every request of a venue once about one symbol, and return what came.

    A row per endpoint: whether the body is as expected, how many rows it gave, whether the specification's
    mark is confirmed by it or contradicted, and the error.
    """
    venue = VENUES[session.venue.exchange]
    try:
        item = list_contracts(session).by_symbol.get(symbol)
    except DerivdataError as problem:
        return pd.DataFrame([_checked(venue.endpoints[0], None, str(problem), answered=_answered(problem))])
    rows = []
    for endpoint in dict.fromkeys(venue.endpoints):
        wrong_margin = item is not None and endpoint.margin == ("linear" if item.inverse else "inverse")
        if endpoint.method == "WS" or wrong_margin:
            continue
        params = dict.fromkeys(endpoint.pattern.groupindex, item.name if item else symbol)
        if endpoint.symbol:
            params[endpoint.symbol] = endpoint.each[0] if endpoint.each else item.name if item else symbol
        if endpoint.paging is not None and endpoint.paging.by == "time":
            now = session.clock.utc()
            params |= next(walk(endpoint.paging, us_of(now - _HOUR * 24), us_of(now)))
        try:
            records, _, _ = session.ask(
                endpoint, params, context={"instrument": item.name if item else symbol}
            )
            rows.append(_checked(endpoint, records, ""))
        except DerivdataError as problem:
            rows.append(_checked(endpoint, None, str(problem), answered=_answered(problem)))
    return pd.DataFrame(rows)


def _answered(problem: DerivdataError) -> bool:
    """Return whether an error is about the request itself, and not about the moment or the address."""
    if isinstance(problem, VenueError):
        return problem.reason == "refused"
    return isinstance(problem, SchemaError)


def _checked(
    endpoint: Endpoint, records: Records | None, error: str, *, answered: bool = True
) -> dict[str, object]:
    count = 0 if records is None else sum(len(v) for v in vars(records).values() if isinstance(v, list))
    count -= 0 if records is None else len(records.times)
    mark = "confirmed" if endpoint.confirmed else "unconfirmed"
    verdict = "no rows" if count == 0 else "confirms"
    if records is None:
        verdict = "contradicts" if answered else "no answer"
    return {
        "exchange": endpoint.exchange,
        "path_or_channel": endpoint.path,
        "rows": count,
        "mark": mark,
        "verdict": verdict,
        "error": error[:200],
    }
