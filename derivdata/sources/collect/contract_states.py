"""Open interest of venues that tell it of one contract a request: a share of the contracts in each poll."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import NamedTuple

import pandas as pd

from derivdata.errors import DerivdataError, NetworkError, VenueError
from derivdata.sources.archive import Request
from derivdata.sources.collect.contracts import Contracts, contract_name
from derivdata.sources.collect.session import Stopped, VenueSession
from derivdata.sources.venues.endpoint import VenueEndpoint
from derivdata.sources.venues.record_types import Instrument, OiPoint, State
from derivdata.sources.venues.wire import us_of

__all__ = ["ContractStates", "Share"]

_MINUTE = pd.Timedelta(1, "min")
_MOST_BAD = 5  # answers in a row: then it is not about the contract


class Share(NamedTuple):
    """What one poll was told: open interest at its own instants, what was asked, and the last error."""

    points: list[OiPoint]
    requests: list[Request]
    error: str


class ContractStates:
    """The open interest of one venue's contracts, a share of them in each poll.

    The contracts that were not asked for longest come first; of those never asked the chosen symbols, then
    those with the most volume. A poll each minute takes as many as make all within the endpoint's cadence, so
    that requests are spread evenly over it.

    Parameters
    ----------
    session
        The venue's.
    endpoints
        Those that are polled and tell of one contract (`VenueEndpoint.is_of_one`).
    symbols
        Those to ask for first.
    seconds
        How long one poll may take; None takes all contracts that are due, however long that is.
    """

    def __init__(
        self,
        session: VenueSession,
        endpoints: Sequence[VenueEndpoint],
        *,
        symbols: Sequence[str] = (),
        seconds: float | None = None,
    ) -> None:
        self.endpoints = list(endpoints)
        self.wanted = 0
        self._session, self._symbols, self._seconds = session, frozenset(symbols), seconds
        self._asked: dict[str, pd.Timestamp] = {}
        self._held: dict[str, tuple[pd.Timestamp, State]] = {}

    def poll(self, contracts: Contracts, states: Mapping[str, State], now: pd.Timestamp) -> Share:
        """Ask for a share of the contracts.

        Parameters
        ----------
        contracts
            Those that the venue lists.
        states
            The state of each contract by the other answers of this minute: its mark values the coins, and its
            volume says which contracts are the largest.
        now
            The instant of the poll.

        Raises
        ------
        Stopped
            The clock was stopped.
        VenueError
            The venue refuses this address.
        """
        share = Share([], [], "")
        bad, started = 0, self._session.clock.utc()
        for endpoint, item in self._due(contracts, states, now):
            spent = (self._session.clock.utc() - started).total_seconds()
            if self._seconds is not None and spent >= self._seconds:
                break
            self._asked[item.name] = now
            state = states.get(item.name)
            try:
                point, error = self._ask(endpoint, item, None if state is None else state.mark), ""
                share.points.append(point)
                bad = 0
            except Stopped:
                raise
            except DerivdataError as problem:
                if isinstance(problem, VenueError) and problem.reason == "region":
                    raise
                error, share = str(problem), share._replace(error=str(problem))
                if isinstance(problem, VenueError) and problem.status == 404:
                    self.endpoints.remove(endpoint)  # there is no such request: not again in this run
                bad += _MOST_BAD if _is_about_venue(problem) else 1
            start = now.floor("min")
            window = start, start + pd.Timedelta(endpoint.every or 0, "s")
            share.requests.append(Request(self._session.venue.exchange, item.symbol, *window, error[:500]))
            if bad >= _MOST_BAD or endpoint not in self.endpoints:
                break
        return share

    def known(self, now: pd.Timestamp) -> list[State]:
        """Return the open interest that is not older than its cadence, without an instant of its own."""
        oldest = now - self._cadence() - _MINUTE
        return [state for at, state in self._held.values() if at >= oldest]

    @property
    def covered(self) -> int:
        """Return of how many contracts open interest is known."""
        return len(self._held)

    def _cadence(self) -> pd.Timedelta:
        return pd.Timedelta(max((e.every or 0.0 for e in self.endpoints), default=0.0), "s")

    def _due(
        self, contracts: Contracts, states: Mapping[str, State], now: pd.Timestamp
    ) -> list[tuple[VenueEndpoint, Instrument]]:
        """Return what to ask in this poll, in order."""

        def volume(item: Instrument) -> float:
            state = states.get(item.name)
            return (state.volume_usd if state is not None else None) or 0.0

        listed: list[tuple[VenueEndpoint, Instrument]] = []
        for endpoint in self.endpoints:
            fitting = [item for item in contracts.by_symbol.values() if endpoint.covers(item)]
            fitting.sort(key=volume, reverse=True)
            listed += [(endpoint, item) for item in fitting[: endpoint.largest or None]]
        self.wanted = len(listed)
        names = {item.name for _, item in listed}
        self._held = {name: held for name, held in self._held.items() if name in names}
        never = pd.Timestamp(0, tz="UTC")
        listed.sort(
            key=lambda one: (
                self._asked.get(one[1].name, never),
                one[1].symbol not in self._symbols,
                -volume(one[1]),
            )
        )
        since = now - self._cadence() + _MINUTE / 2  # a poll may begin some seconds late
        due = [one for one in listed if self._asked.get(one[1].name, never) <= since]
        if self._seconds is None:
            return due
        return due[: ceil(len(listed) * (_MINUTE / max(self._cadence(), _MINUTE)))]

    def _ask(self, endpoint: VenueEndpoint, item: Instrument, mark: float | None) -> OiPoint:
        """Ask for one contract, and value its coins at the mark of the same minute."""
        params = {endpoint.symbol: contract_name(endpoint, item)}
        records, _, _ = self._session.ask(endpoint, params, context={"instrument": item.name})
        state = next((row for row in records.states if row.instrument.name == item.name), None)
        if state is None or (state.oi_coins is None and state.oi_usd is None):
            raise DerivdataError(
                f"{endpoint.exchange} {endpoint.place}: the answer has nothing about {item.name}"
            )
        usd = state.oi_usd
        if usd is None and state.oi_coins is not None and mark is not None:
            usd = state.oi_coins * mark
        if usd is None:
            raise DerivdataError(
                f"{endpoint.exchange} {endpoint.place}: open interest of {item.name} is in coins, and "
                "no mark price of the same minute is at hand"
            )
        now = self._session.clock.utc()
        self._held[item.name] = now, State(item, None, oi_coins=state.oi_coins, oi_usd=usd)
        time = us_of(now) if state.time is None else state.time
        return OiPoint(item, time, usd, "raw", state.oi_coins)


def _is_about_venue(problem: DerivdataError) -> bool:
    """Return whether the next contract would fare no better: the venue is out of reach, busy or limits."""
    if isinstance(problem, VenueError):
        return problem.reason != "refused"
    return isinstance(problem, NetworkError)
