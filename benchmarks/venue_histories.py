"""Pages of payments as each venue writes them, to measure how fast they become rows."""

from __future__ import annotations

import time
from typing import NamedTuple

import pandas as pd

from derivdata.sources import venues
from derivdata.sources.collect import session as sessions
from derivdata.sources.collect.contracts import contract_name, endpoints_for, list_contracts
from derivdata.sources.collect.history_rows import pages
from derivdata.sources.collect.session import VenueSession
from derivdata.sources.venues.endpoint import VenueEndpoint
from derivdata.sources.venues.reading import Context
from derivdata.sources.venues.record_types import Records
from derivdata.sources.venues.registry import VENUES
from derivdata.sources.venues.tabulation import frames
from derivdata.support.times import us
from tests.collect import fakes
from tests.collect.direct import DirectSession

__all__ = ["History", "histories"]

_END = pd.Timestamp("2026-06-30", tz="UTC")
_DAYS, _PAGES, _CONTRACTS = 150, 12, 10
_ROUNDS = 20


class History(NamedTuple):
    """Pages of payments of ten contracts: requests and bodies."""

    exchange: str
    requests: list[tuple[str, bytes]]
    context: Context

    def rows_per_second(self) -> float:
        """Return rows per second of processor time, of the quickest round: others share the machine."""
        spent, rows = float("inf"), 0
        for _ in range(_ROUNDS):
            before, records = time.process_time(), Records()
            for request, body in self.requests:
                records.add(venues.records(self.exchange, request, body, at=_END, context=self.context))
            rows = len(records.payments)
            frames(self.exchange, records, ["funding_settlements"])
            spent = min(spent, time.process_time() - before)
        return rows / spent


def histories() -> list[History]:
    """Return pages of payments of every venue that lists them."""
    clock = fakes.SimulatedClock(f"{_END:%Y-%m-%dT%H:%M:%S}")
    told = fakes.Fakes(int(_END.timestamp()), clock.utc)
    was = sessions.KeylessSession
    DirectSession.fakes, DirectSession.wait = told, clock.wait
    sessions.KeylessSession = DirectSession  # type: ignore[assignment,misc]
    try:
        return [_history(name, clock, told) for name in fakes.VENUES if _endpoints(name)]
    finally:
        sessions.KeylessSession = was  # type: ignore[misc]


def _endpoints(exchange: str) -> list[VenueEndpoint]:
    return endpoints_for(VENUES[exchange], "settlements", unconfirmed=True)


def _history(exchange: str, clock: fakes.SimulatedClock, told: fakes.Fakes) -> History:
    session = VenueSession(VENUES[exchange], clock, address=told.addresses[exchange])
    item = list_contracts(session).by_symbol["BTC"]
    endpoint = next(e for e in _endpoints(exchange) if e.covers(item))
    given = {endpoint.symbol: contract_name(endpoint, item)}
    asked: list[tuple[str, bytes]] = []
    ask = session.request

    def noted(*args, **options):  # type: ignore[no-untyped-def]
        answer = ask(*args, **options)
        asked.append(answer[1:])
        return answer

    session.request = noted  # type: ignore[method-assign]
    first = us(_END - pd.Timedelta(_DAYS, "D"))
    for _ in pages(session, endpoint, first, us(_END), given, context={"instrument": item.name}):
        if len(asked) == _PAGES:
            break
    names = [f"C{number:02}" for number in range(_CONTRACTS)]
    made = [_renamed(name, *one) for name in names for one in asked]
    context = dict(session.context)
    context["instruments"] = _with_renamed(context["instruments"], item.name, names)
    return History(exchange, made, Context(context, exchange))


def _with_renamed(listed: pd.DataFrame, contract: str, names: list[str]) -> pd.DataFrame:
    """Return a list of contracts with one under other names too, where its name is of its coin."""
    row = listed[listed["instrument_name"].astype(str) == contract]
    others = [
        row.assign(instrument_name=renamed, symbol=name)
        for name in names
        if (renamed := _renamed(name, contract, b"")[0]) != contract
    ]
    return pd.concat([listed, *others], ignore_index=True)


def _renamed(name: str, request: str, body: bytes) -> tuple[str, bytes]:
    """Return the venue's response for another coin than BTC, which some venues call XBT."""
    for coin in ("XBT", "BTC"):
        request, body = request.replace(coin, name), body.replace(coin.encode(), name.encode())
    return request, body
