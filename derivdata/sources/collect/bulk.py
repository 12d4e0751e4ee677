"""Requests about many contracts of a venue at once: which are due, their responses, and missing fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

import pandas as pd

from derivdata.errors import DerivdataError
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.contracts import all_pages, batches, other_dexes
from derivdata.sources.collect.questions import require_current
from derivdata.sources.collect.session import Contracts, Stopped, VenueSession
from derivdata.sources.venues.endpoint import STATE_TABLES, VenueEndpoint
from derivdata.sources.venues.record_types import Records, State
from derivdata.support import times

CHAINS = ("options_snapshot",)
AGAIN = pd.Timedelta(5, "min")
"""Time after which failed requests are repeated, if they are due less often than that."""
_SOONER = 0.95
"""Share of a cadence after which a request is due, since polls begin at varying seconds of a minute."""
_FIGURES = ("rate", "mark", "index_price", "last", "oi_usd", "volume_usd", "change_pct")
_LASTING = ("period_h", "settle_h", "volume_usd", "change_pct")
_MINUTE = pd.Timedelta(1, "min")
_DEX_CADENCE = pd.Timedelta(5, "min")
_MOST_FAILED = 5
"""Consecutive failed requests of a poll after which the remaining ones are skipped."""


@dataclass
class Poll:
    """Result of one poll of a venue: frames by table, and the errors of tables without a response."""

    exchange: str
    at: pd.Timestamp
    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    # Errors by request, if other requests filled the tables or an older list is used.
    problems: dict[str, str] = field(default_factory=dict)
    # Incomplete tables, each with the label of the request in `problems`.
    missing: list[tuple[str, str]] = field(default_factory=list)
    # Ledger entries by table, if the request is not about all contracts for the minute of the poll.
    requests: dict[str, list[LedgerEntry]] = field(default_factory=dict)
    gone: bool = False  # whether the venue refuses this address
    changed: dict[str, str] = field(default_factory=dict)  # changes of its lists, by request

    def add_problem(self, endpoint: VenueEndpoint, why: str, incomplete: Sequence[str] = ()) -> None:
        """Add an error of a request, and the tables that are incomplete for it."""
        before = self.problems.get(endpoint.label)
        self.problems[endpoint.label] = why if before is None else f"{before}; {why}"
        self.missing += [(table, endpoint.label) for table in incomplete]


class PolledEndpoint:
    """State of a polled endpoint: its last response, and when to send which requests next."""

    def __init__(self, endpoint: VenueEndpoint, now: pd.Timestamp) -> None:
        self.endpoint = endpoint
        self.cadence = pd.Timedelta((endpoint.every or 0) * _SOONER, "s")
        self.due = self.again = now  # when to send all requests, and when to repeat failed ones
        self.records = Records()
        self.unanswered: list[dict[str, str]] = []  # parameters of requests of the last poll that failed
        self._fields: set[str] = set()  # figures that it has sent so far
        self._reported_on: pd.Timestamp | None = None

    def keep(self, records: Records, now: pd.Timestamp, *, is_complete: bool) -> None:
        """Store the records of a complete poll, or add those of repeated requests."""
        if is_complete:
            self.due = now + self.cadence
            self.records = Records()
        self.records.add(records)

    def gone_fields(self, now: pd.Timestamp) -> list[str]:
        """Return, once a day, the figures that it sent before and sends for no contract now."""
        present = {
            name for name in _FIGURES if any(getattr(s, name) is not None for s in self.records.states)
        }
        gone = sorted(self._fields - present)
        today = now.floor("D")
        self._fields |= present
        if not gone or self._reported_on == today:
            return []
        self._reported_on = today
        return gone


class BulkAnswers:
    """The endpoints of a venue whose responses are about many contracts."""

    def __init__(self, session: VenueSession, endpoints: Sequence[VenueEndpoint]) -> None:
        self._session = session
        self._polled = {endpoint: PolledEndpoint(endpoint, session.clock.utc()) for endpoint in endpoints}
        self._dexes: dict[str, pd.Timestamp] = {}  # time of the last request for each of the other dexes
        self.arrived: dict[str, int] = {}  # arrival of the last response in this poll by contract [µs]

    @property
    def endpoints(self) -> list[VenueEndpoint]:
        """Return the polled endpoints."""
        return [*self._polled]

    def lasting(self) -> Records:
        """Return the figures of older responses that remain valid: intervals, and figures of 24 hours."""
        lasting = []
        for polled in self._polled.values():
            for state in polled.records.states:
                figures = {name: getattr(state, name) for name in _LASTING}
                lasting.append(State(state.instrument, None, **figures))
        return Records(states=lasting)

    def count(self, now: pd.Timestamp, contracts: Contracts | None) -> int:
        """Return the number of due requests, for the known contracts."""
        due = [endpoint for endpoint, polled in self._polled.items() if now >= polled.due]
        return sum(len(self._params(endpoint, contracts)) for endpoint in due)

    def ask(self, poll: Poll, contracts: Contracts | None) -> dict[VenueEndpoint, Records]:
        """Send the due requests, and repeat failed ones after `AGAIN`; return the records by endpoint."""
        self.arrived = {}
        answered: dict[VenueEndpoint, Records] = {}
        lost: dict[VenueEndpoint, str] = {}
        for endpoint, polled in self._polled.items():
            is_due = poll.at >= polled.due
            params = self._params(endpoint, contracts) if is_due else polled.unanswered
            if not is_due and (not params or poll.at < polled.again):
                continue
            self._dexes |= {query[endpoint.dex]: poll.at for query in params if endpoint.dex in query}
            records, unanswered, why = self._responses(endpoint, params, poll.at)
            if is_due and not unanswered and (why := self._shortage(polled, records, contracts)):
                unanswered = params
            polled.again = poll.at + min(polled.cadence, AGAIN * _SOONER)
            polled.unanswered = unanswered
            is_answered = not unanswered or len(unanswered) < len(params)
            if is_answered:
                polled.keep(records, poll.at, is_complete=is_due)
                answered[endpoint] = records
            elif is_due:
                polled.due = polled.again
                polled.records = Records()
                lost[endpoint] = why
            if unanswered and (is_answered or not is_due):
                failure = f"{len(unanswered)} of {len(params)} requests failed: {why}"
                poll.add_problem(endpoint, failure, endpoint.tables or CHAINS)
        self._add_problems(poll, answered, lost)
        return answered

    def _add_problems(
        self, poll: Poll, answered: dict[VenueEndpoint, Records], lost: dict[VenueEndpoint, str]
    ) -> None:
        """Add to a poll the omitted rows and missing figures of responses, and the failed tables."""
        for endpoint, records in answered.items():
            if records.left_out:
                why = f"{len(records.left_out)} left out: {records.left_out[0]}"
                poll.add_problem(endpoint, why, endpoint.tables or CHAINS)
            if gone := self._polled[endpoint].gone_fields(poll.at):
                poll.add_problem(endpoint, f"no longer sends {', '.join(gone)}: these columns are empty")
        filled = {table for endpoint in answered for table in endpoint.tables}
        for endpoint, why in lost.items():
            affected = set(endpoint.tables or CHAINS)
            poll.failed |= dict.fromkeys(sorted(affected - filled), why)
            if affected & filled:
                poll.add_problem(endpoint, why, sorted(affected & filled))

    def _shortage(self, polled: PolledEndpoint, records: Records, contracts: Contracts | None) -> str:
        """Return an error text if a response has no contracts, or less than half of the last poll's."""
        endpoint = polled.endpoint
        count = len(records.states)
        last = len(polled.records.states)
        listed = () if contracts is None else contracts.by_symbol.values()
        is_about_listed = any(endpoint.covers(item) for item in listed)
        if not {*endpoint.tables} & {*STATE_TABLES} or not is_about_listed:
            return ""
        if count and 2 * count >= last:
            return ""
        expected = f"{last} as in the last poll" if last else "the listed contracts"
        return f"{endpoint.where}: expected {expected}, got {count} contracts"

    def _responses(
        self, endpoint: VenueEndpoint, queries: list[dict[str, str]], since: pd.Timestamp
    ) -> tuple[Records, list[dict[str, str]], str]:
        """Return the records of some requests, the failed requests, and the first error.

        A list that this poll has requested already is used again. After `_MOST_FAILED` consecutive failures
        the remaining requests count as failed.
        """
        records = Records()
        why = ""
        consecutive = 0
        unanswered: list[dict[str, str]] = []
        listed_at, listed = self._session.shared.lists.get(endpoint, (None, records))
        for place, params in enumerate(queries):
            try:
                if listed_at is not None and listed_at >= since:
                    response = listed
                else:
                    response = all_pages(self._session, endpoint, params)
                require_current(endpoint, response, self._session.clock.utc())
            except Stopped:
                raise
            except DerivdataError as problem:
                why = why or str(problem)
                consecutive += 1
                unanswered.append(params)
                if consecutive == _MOST_FAILED:
                    return records, [*unanswered, *queries[place + 1 :]], why
                continue
            consecutive = 0
            arrived = times.us(self._session.clock.utc())
            self.arrived |= {row.instrument.name: arrived for row in response.states}
            self.arrived |= {option.name: arrived for option in response.options}
            records.add(response)
        return records, unanswered, why

    def _due_dexes(self) -> list[str]:
        """Return the fifth of the other dexes with the oldest requests, each due every 5 minutes."""
        names = other_dexes(self._session)
        oldest = self._session.clock.utc() - _DEX_CADENCE * _SOONER
        never = pd.Timestamp(0, tz="UTC")
        waiting = [name for name in names if self._dexes.get(name, never) <= oldest]
        waiting.sort(key=lambda name: self._dexes.get(name, never))
        return waiting[: ceil(len(names) * (_MINUTE / _DEX_CADENCE))]

    def _params(self, endpoint: VenueEndpoint, contracts: Contracts | None) -> list[dict[str, str]]:
        """Return the parameters of each request of one poll."""
        if endpoint.batch:
            return [] if contracts is None else batches(endpoint, contracts)
        if not endpoint.expiry:
            queries = [{endpoint.symbol: value} if value else {} for value in endpoint.each or ("",)]
            if endpoint.dex:
                queries += [{endpoint.dex: name} for name in self._due_dexes()]
            return queries
        others = [polled.records.options for other, polled in self._polled.items() if other is not endpoint]
        listed = sorted({(option.symbol, option.expiry) for options in others for option in options})
        return [
            {endpoint.symbol: symbol, endpoint.expiry: f"{pd.Timestamp(expiry, unit='us'):%y%m%d}"}
            for symbol, expiry in listed
        ]
