"""The bulk answers of a venue: which of its requests are due, what they say, and what they no longer say."""

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
"""When what failed is asked for again, of requests that are due more seldom."""
_SOONER = 0.95
"""Polls begin at slightly different seconds of their minutes."""
_FIGURES = ("rate", "mark", "index_price", "last", "oi_usd", "volume_usd", "change_pct")
_LASTING = ("period_h", "settle_h", "volume_usd", "change_pct")
_MINUTE = pd.Timedelta(1, "min")
_DEX_CADENCE = pd.Timedelta(5, "min")
_MOST_FAILED = 5
"""Requests in a row that fail, of many that one poll takes: then it is not about their contracts."""


@dataclass
class Poll:
    """Result of one poll of a venue: frames by table, and the reasons for tables without an answer."""

    exchange: str
    at: pd.Timestamp
    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    # Why requests were not answered whose tables others filled, and lists of which older ones are used.
    parts: dict[str, str] = field(default_factory=dict)
    # Of `parts`, the tables that lack something, each with the request.
    missing: list[tuple[str, str]] = field(default_factory=list)
    # What was asked for a table where it is not all contracts for the minute of the poll.
    requests: dict[str, list[LedgerEntry]] = field(default_factory=dict)
    gone: bool = False  # whether the venue refuses this address
    changed: dict[str, str] = field(default_factory=dict)  # what is new in its lists, by request

    def tell(self, endpoint: VenueEndpoint, why: str, lacking: Sequence[str] = ()) -> None:
        """Add why a request gave less than it should, and the tables that lack it, to what was told of it."""
        before = self.parts.get(endpoint.label)
        self.parts[endpoint.label] = why if before is None else f"{before}; {why}"
        self.missing += [(table, endpoint.label) for table in lacking]


class Asked:
    """What is known of one endpoint that is polled: its last answer, and what of it to ask for when."""

    def __init__(self, endpoint: VenueEndpoint, now: pd.Timestamp) -> None:
        self.endpoint = endpoint
        self.cadence = pd.Timedelta((endpoint.every or 0) * _SOONER, "s")
        self.due = self.again = now  # when to ask for all of it, and for what is unanswered
        self.kept = Records()
        self.unanswered: list[dict[str, str]] = []  # parameters of requests of the last poll that failed
        self._told: set[str] = set()  # figures that it has told
        self._named_on: pd.Timestamp | None = None

    def keep(self, records: Records, now: pd.Timestamp, *, is_whole: bool) -> None:
        """Keep what was answered, in place of the poll before or next to it."""
        if is_whole:
            self.due = now + self.cadence
            self.kept = Records()
        self.kept.add(records)

    def gone_fields(self, now: pd.Timestamp) -> list[str]:
        """Return, once a day, what it told of some contract before and tells of none now."""
        told = {name for name in _FIGURES if any(getattr(s, name) is not None for s in self.kept.states)}
        gone = sorted(self._told - told)
        today = now.floor("D")
        self._told |= told
        if not gone or self._named_on == today:
            return []
        self._named_on = today
        return gone


class BulkAnswers:
    """The endpoints of a venue that answer about many contracts at once."""

    def __init__(self, session: VenueSession, endpoints: Sequence[VenueEndpoint]) -> None:
        self._session = session
        self._asked = {endpoint: Asked(endpoint, session.clock.utc()) for endpoint in endpoints}
        self._dexes: dict[str, pd.Timestamp] = {}  # when each of the other dexes was requested last
        self.arrived: dict[str, int] = {}  # of each contract of this poll, when its last answer came [µs]

    @property
    def endpoints(self) -> list[VenueEndpoint]:
        """Return the endpoints that are polled."""
        return [*self._asked]

    def lasting(self) -> Records:
        """Return what older answers still say: intervals, and the figures of 24 hours."""
        states = (state for asked in self._asked.values() for state in asked.kept.states)
        return Records(
            states=[
                State(s.instrument, None, **{name: getattr(s, name) for name in _LASTING}) for s in states
            ]
        )

    def count(self, now: pd.Timestamp, contracts: Contracts | None) -> int:
        """Return how many requests are due, as far as the contracts are known."""
        due = [endpoint for endpoint, asked in self._asked.items() if now >= asked.due]
        return sum(len(self._params(endpoint, contracts)) for endpoint in due)

    def ask(self, poll: Poll, contracts: Contracts | None) -> dict[VenueEndpoint, Records]:
        """Ask for what is due, or was not answered `AGAIN` ago, and return what each endpoint answered."""
        self.arrived = {}
        answered: dict[VenueEndpoint, Records] = {}
        lost: dict[VenueEndpoint, str] = {}
        for endpoint, asked in self._asked.items():
            is_whole = poll.at >= asked.due
            params = self._params(endpoint, contracts) if is_whole else asked.unanswered
            if is_whole or (params and poll.at >= asked.again):
                self._dexes |= {one[endpoint.dex]: poll.at for one in params if endpoint.dex in one}
                records, unanswered, why = self._answers(endpoint, params, poll.at)
                if is_whole and not unanswered and (why := self._lack(asked, records, contracts)):
                    unanswered = params
                asked.again = poll.at + min(asked.cadence, AGAIN * _SOONER)
                asked.unanswered = unanswered
                is_answered = not unanswered or len(unanswered) < len(params)
                if is_answered:
                    asked.keep(records, poll.at, is_whole=is_whole)
                    answered[endpoint] = records
                elif is_whole:
                    asked.due = asked.again
                    asked.kept = Records()
                    lost[endpoint] = why
                if unanswered and (is_answered or not is_whole):
                    said = f"{len(unanswered)} of {len(params)} requests failed: {why}"
                    poll.tell(endpoint, said, endpoint.tables or CHAINS)
        self._tell(poll, answered, lost)
        return answered

    def _tell(
        self, poll: Poll, answered: dict[VenueEndpoint, Records], lost: dict[VenueEndpoint, str]
    ) -> None:
        """Say what answers leave out, and which tables have none."""
        for endpoint, records in answered.items():
            if records.left_out:
                why = f"{len(records.left_out)} left out: {records.left_out[0]}"
                poll.tell(endpoint, why, endpoint.tables or CHAINS)
            if gone := self._asked[endpoint].gone_fields(poll.at):
                poll.tell(endpoint, f"no longer tells {', '.join(gone)}: these columns stay empty")
        filled = {table for endpoint in answered for table in endpoint.tables}
        for endpoint, why in lost.items():
            told = set(endpoint.tables or CHAINS)
            poll.failed |= dict.fromkeys(sorted(told - filled), why)
            if told & filled:
                poll.tell(endpoint, why, sorted(told & filled))

    def _lack(self, asked: Asked, records: Records, contracts: Contracts | None) -> str:
        """Return why a whole answer about the state is none: it tells of no contract, or of half as many."""
        endpoint = asked.endpoint
        told = len(records.states)
        last = len(asked.kept.states)
        listed = () if contracts is None else contracts.by_symbol.values()
        is_about_some = any(endpoint.covers(item) for item in listed)
        if not {*endpoint.tables} & {*STATE_TABLES} or not is_about_some or (told and 2 * told >= last):
            return ""
        before = f"{last} of the last poll" if last else "those that are listed"
        return f"{endpoint.where}: it tells of {told} contracts, and not of {before}"

    def _answers(
        self, endpoint: VenueEndpoint, asked: list[dict[str, str]], since: pd.Timestamp
    ) -> tuple[Records, list[dict[str, str]], str]:
        """Return what some requests say now, or said where this poll listed the contracts by it.

        And those that failed or, after `_MOST_FAILED` failures in a row, were not asked, and why the first.
        """
        records = Records()
        why = ""
        in_row = 0
        unanswered: list[dict[str, str]] = []
        listed, told = self._session.shared.lists.get(endpoint, (None, records))
        for place, params in enumerate(asked):
            try:
                is_here = listed is not None and listed >= since
                answer = told if is_here else all_pages(self._session, endpoint, params)
                require_current(endpoint, answer, self._session.clock.utc())
            except Stopped:
                raise
            except DerivdataError as problem:
                why = why or str(problem)
                in_row = in_row + 1
                unanswered.append(params)
                if in_row == _MOST_FAILED:
                    return records, [*unanswered, *asked[place + 1 :]], why
                continue
            in_row = 0
            arrived = times.us(self._session.clock.utc())
            self.arrived |= {row.instrument.name: arrived for row in answer.states}
            self.arrived |= {option.name: arrived for option in answer.options}
            records.add(answer)
        return records, unanswered, why

    def _due_dexes(self) -> list[str]:
        """Return a fifth of the other dexes, those not requested for longest: each once in five minutes."""
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
            own = [{endpoint.symbol: value} if value else {} for value in endpoint.each or ("",)]
            return own + ([{endpoint.dex: name} for name in self._due_dexes()] if endpoint.dex else [])
        others = [asked.kept.options for each, asked in self._asked.items() if each is not endpoint]
        listed = sorted({(option.symbol, option.expiry) for options in others for option in options})
        return [
            {endpoint.symbol: symbol, endpoint.expiry: f"{pd.Timestamp(expiry, unit='us'):%y%m%d}"}
            for symbol, expiry in listed
        ]
