"""Each number and word of each body in turn, changed by value: seen, or listed as what nothing can see.

``python -m tests.venues.test_each_value`` writes the list. A change is detected if the reader rejects it, or
if a collector that had the correct body a minute before omits something. A change that no table shows, or
that only removes values, is harmless.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata import tables
from derivdata.errors import ArchiveError, SchemaError, VenueError
from derivdata.sources import venues
from derivdata.sources.archive.audit import refuse_impossible
from derivdata.sources.collect import plausibility
from derivdata.sources.collect.history_rows import require_contract
from derivdata.sources.venues.record_types import Records
from derivdata.sources.venues.row_checks import row_faults
from derivdata.sources.venues.tabulation import frames
from derivdata.support import times
from tests.reliability.promises import SOAK
from tests.reliability.test_lying_server import Change, Place, as_number, at, changes_of, every_place, put
from tests.venues import test_recorded as recorded
from tests.venues.test_read import CASES, context_of

_MINUTE = pd.Timedelta(1, "min")
_STEPS = {1.0: 3600, 1e3: 3_600_000, 1e6: 3_600_000_000, 1e9: 3_600_000_000_000}
"""An hour in the units in which venues write times: seconds to nanoseconds."""
_ROWS = 6
_GATE = 12
"""In the gate one of so many fields."""


class Told:
    """A body as a collector gets it, and what becomes of it when a value is changed."""

    def __init__(self, venue: str, request: str, body: Any, context: dict[str, Any]) -> None:
        self.venue, self.request, self.context = venue, request, context
        self.body = {"$": body}
        self.now, self.endpoint = recorded.AT, self._endpoint()
        stamps = [row.time for rows in _pasts(self.read(body)) for row in rows if row.time is not None]
        self.now = pd.Timestamp(max(stamps), unit="us", tz="UTC") if stamps else recorded.AT
        self.honest = self.read(body)
        self.tables = self._tables(self.honest)

    def _endpoint(self) -> Any:
        place, params = venues._parsed(self.request)
        return venues._endpoint_of(self.venue, place, params)[0]

    def read(self, body: Any) -> Records:
        return self.read_text(json.dumps(body))

    def read_text(self, text: str) -> Records:
        return venues.records(self.venue, self.request, text, at=self.now, context=self.context)

    def _tables(self, records: Records) -> dict[str, pd.DataFrame]:
        names = [*self.endpoint.tables, "instruments", "intervals"]
        result = frames(self.venue, records, names, at=times.us(self.now))
        for name in self.endpoint.tables:
            result[name] = result[name].drop_duplicates([*tables.TABLES[name].key], ignore_index=True)
            if name in plausibility.OF_SERIES and not records.states:
                result[name] = result[name][result[name]["time"] <= self.now]  # the window ends now
        return result

    @cached_property
    def asked(self) -> Any:
        """The contract that the request names, where it names one."""
        named = {row.instrument for rows in _pasts(self.honest) for row in rows if hasattr(row, "instrument")}
        by_name = self.endpoint.symbol or "{" in self.endpoint.path
        return next(iter(named)) if by_name and len(named) == 1 else None

    def outcome(self, change: Change) -> str:
        """Outcome of a change: "seen", the "same" tables, "missing" figures, or "unseen"."""
        body = copy.deepcopy(self.body)
        change(body, {})
        try:
            records = self.read(body.get("$"))
            if len(records.omitted) > len(self.honest.omitted):
                return "seen"
            told = self._tables(records)
            if self._is_doubted(records, told):
                return "seen"
        except (ArchiveError, SchemaError, VenueError):
            return "seen"
        if all(told[name].equals(frame) for name, frame in self.tables.items()):
            return "same"
        if all(map(_is_part, self.tables.values(), told.values())):
            return "missing"
        fills = [result.get("liquidations_fills", pd.DataFrame()) for result in (self.tables, told)]
        return "id" if len(fills[1]) and _but_id(fills[0]).equals(_but_id(fills[1])) else "unseen"

    def _is_doubted(self, records: Records, told: dict[str, pd.DataFrame]) -> bool:
        """Whether a collector omits something, after a minute in which the venue was correct."""
        plausibility.require_current(self.endpoint, records, self.now)
        if self.asked is not None:
            require_contract(self.endpoint, records, self.asked)
        polls, later = plausibility.LastPolls(self.venue), self.now + _MINUTE
        before, after = self.honest.merged(), records.merged()
        polls.hold(before.states, self.now)
        polls.hold_chain(before.options, self.now)
        _, failed, doubtful = polls.hold(after.states, later)
        doubtful += polls.hold_chain(after.options, later)[1]
        held, news = plausibility.hold_list(
            self.honest, replace(records, instruments=[*records.instruments]), {}
        )
        fills = self.tables.get("liquidations_fills")
        if fills is not None:
            prices = fills["fill_price_usd"].fillna(fills["order_price_usd"])
            polls.prices = dict(zip(fills["symbol"], prices, strict=True))
            doubtful += polls.sound_fills(told["liquidations_fills"], self.now, fills["symbol"])[1]
        for name, rows in told.items():
            if name in self.endpoint.tables:
                refuse_impossible(tables.TABLES[name], rows)
                for fault in row_faults(name, rows):
                    raise SchemaError(fault)
            if name in plausibility.OF_SERIES and not records.states:
                for symbol, part in rows.groupby("symbol", observed=True):
                    own = self.tables[name]["symbol"] == symbol
                    plausibility.require_like(name, self.tables[name][own], part)
        return bool(failed or doubtful or held or news)


def _pasts(records: Records) -> list[list[Any]]:
    names = ["states", "options", "books", "liquidations", "payments", "oi", "prices", "positioning"]
    names += ["taker_volumes", "deliveries", "indices"]
    return [getattr(records, name) for name in names]


def _but_id(fills: pd.DataFrame) -> pd.DataFrame:
    return fills.drop(columns="order_id").sort_values([*fills.columns.drop("order_id")], ignore_index=True)


def _is_part(honest: pd.DataFrame, told: pd.DataFrame) -> bool:
    """Whether rows are a subset of the correct ones, except missing figures."""
    before, after = (
        frame.astype(object).where(frame.notna(), None).to_dict("records") for frame in (honest, told)
    )
    return all(any(_lacks(row, other) for other in before) for row in after)


def _lacks(row: dict[Any, Any], other: dict[Any, Any]) -> bool:
    """An id derived from a row's values changes if one is missing."""
    differing = {name for name, value in row.items() if value != other[name]}
    missing = {name for name in differing if row[name] is None}
    return differing - missing <= ({"order_id"} if missing else set())


FILES = [row["file"] for row in recorded.listed() if row["what"] != "error"]
TYPED = {f"typed {number}": case for number, case in enumerate(CASES)}
BODIES = [*FILES, *TYPED]


@cache
def told_of(name: str) -> Told:
    if name in TYPED:
        case = TYPED[name]
        return Told(case["venue"], case["request"], case["body"], context_of(case))
    row = next(row for row in recorded.listed() if row["file"] == name)
    body = json.loads(recorded.body_of(name))
    body = body if len(json.dumps(body)) < 20_000 else recorded.shortened(body)
    return Told(row["exchange"], recorded.request_of(name), body, recorded.context_of(name))


def changes(body: Any, place: Place) -> dict[str, Change]:
    """Return the changes that apply to a value, except its absence; a time also moves by an hour."""
    value = at(body, place.steps)
    if not place.steps or (place.steps == ("$",) and not isinstance(value, list)):
        return {}
    result = changes_of(body, place)
    number = None if isinstance(value, list | dict | bool | None) else as_number(value)
    for unit, hour in _STEPS.items():
        if number is not None and 1.3e9 * unit < number < 2e9 * unit:
            later = str(int(number) + hour) if isinstance(value, str) else value + hour
            result["shift"] = partial(lambda b, _, new: put(b, place.steps, new), new=later)
    return {name: change for name, change in result.items() if name != "drop"}


def fields(told: Told) -> Iterator[tuple[str, list[Place]]]:
    """The fields of a body and their places: in some of the rows, of which the reader may use few."""
    results: dict[str, list[Place]] = {}
    for place in every_place(told.body, (), ()):
        field = place.field.removeprefix("$").removeprefix(".")
        results.setdefault(f"{told.venue} {told.endpoint.path} {field}", []).append(place)
    yield from ((field, places[:_ROWS]) for field, places in results.items())


def outcomes(told: Told, places: list[Place]) -> dict[str, str]:
    """Outcome of each change of a field, in the row where most of them change a figure."""
    by_row = [
        {name: told.outcome(change) for name, change in changes(told.body, place).items()} for place in places
    ]

    def effects(found: dict[str, str]) -> tuple[int, int]:
        quiet = [*found.values()].count("same")
        return len(found) - quiet - [*found.values()].count("id"), len(found) - quiet

    best = max(by_row, key=effects)
    return (
        {name: "unseen" if what == "id" else what for name, what in best.items()}
        if any(effects(best))
        else {}
    )


_LIST = Path(__file__).parents[1] / "baseline" / "unseen_changes_of_venues.json"
UNSEEN: dict[str, str] = json.loads(_LIST.read_text("utf-8"))
"""By endpoint and field, the single changes that are undetected in some of its bodies."""

REASONS = {
    r"\[\] again": "equal rows of one instant are different fills",
    r"\w*(Rate\w*1h|funding_rates\.\d+) (x10|x0.01|-1|swap)": "rates of an hour have any size and sign",
    r"\w*(rate|Rate|funding|fundingRateRr|funding_8h|[. ][frv]|interest_1h|valuations\S* result.data.v)"
    r" (x10|x0.01|-1|swap)": "rates have any size and sign",
    r"(value|\w*[cC]hange\w*|\w*Pcnt|closeRp|open) (x10|x0.01|-1|swap)": "of 24 hours ago, and small",
    r"(\w*[iI]d|orderID|\*) (x10|x0.01|-1|swap|shift)": "an id that nothing repeats",
    r"(\w*[tT]ime\w*|ts|T|t|created_at|effectiveAt) (shift|swap)": "another instant before now is as good",
    r"(contract|contract_code|instId) shift": "where the list is not at hand, the coin is read from the name",
    r"\S+ swap": "two rows or figures of one kind and size",
    r"side -1": "who bought and who sold, which nothing repeats",
    r"\w*(buy|sell)_ratio (x10|x0.01)": "numbers or shares, which need not add up",
    r"(shift|klines  shift|\S*(date|expiryDate) shift)": "another day before now is as good",
    r"\w*(olume|[vV]ol|vol\w*24h|volume_\w+|\w*[aA]mount|qty|size|[sS]z|[qvszab]|leavesQty|asks|bids"
    r"|data\.i|[oO]penInterest\w*|open_interest|oi|oiUsd|\w*Value|turnover\w*|dayNtlVlm|quoteVolume"
    r"|\w*_volume|amount24|volumeQuote|left) (x10|x0.01|-1)": "an amount that nothing repeats, within 20"
    " times the last",
    r"(lsr_account|top_lsr_size) (x10|x0.01)": "a ratio that nothing repeats",
    r"(analytics/\S+ result.data) (x10|x0.01|-1|swap)": "an amount that nothing repeats",
    r"(collectCycle|fundingIntervalHour) (x10|x0.01|-1)": "an hour more or less is an interval too",
    r"(delta|gamma|vega|theta|markIV|mark_iv|iv) (x10|x0.01)": "options far from the money have any",
    r"(\w*[pP]rice\w*|\w*Px|p|px) (x10|x0.01)": "a price that stands alone, of an option or a first fill",
    r"isSettlement -1": "a row that is called no payment is none",
    r"is_maker_ask -1": "who made and who took, which nothing repeats",
}
"""Why no check can detect it, by field and change."""

MAX_BLIND = 0.1
"""The part of all fields that reach a row of which no change is seen, at most."""


@pytest.mark.parametrize("name", BODIES)
def test_every_changed_value_is_detected_or_listed(name: str) -> None:
    """In the gate some fields of each body; all of them in the long form."""
    told, number = told_of(name), BODIES.index(name)
    for field, places in [*fields(told)][0 if SOAK else number % _GATE :: 1 if SOAK else _GATE]:
        unseen = {change for change, outcome in outcomes(told, places).items() if outcome == "unseen"}
        assert unseen <= set(UNSEEN.get(field, "").split()), field


def test_every_undetected_change_has_a_reason() -> None:
    told = {f"{field} {change}" for field, changes in UNSEEN.items() for change in changes.split()}
    assert [item for item in told if not any(re.search(f"({reason})$", item) for reason in REASONS)] == []


def found_outcomes() -> dict[str, dict[str, set[str]]]:
    """Outcome of each change of each field, in all bodies of its endpoint."""
    results: dict[str, dict[str, set[str]]] = {}
    for told in map(told_of, BODIES):
        for field, places in fields(told):
            for change, outcome in outcomes(told, places).items():
                results.setdefault(field, {}).setdefault(change, set()).add(outcome)
    return results


def unseen_of(found: dict[str, dict[str, set[str]]]) -> dict[str, str]:
    by_field = {
        field: " ".join(change for change, outcomes in changes.items() if "unseen" in outcomes)
        for field, changes in found.items()
    }
    return {field: changes for field, changes in by_field.items() if changes}


@pytest.mark.skipif(not SOAK, reason="changes every value of every body: a part of the full loads")
def test_most_changed_fields_are_detected() -> None:
    result = found_outcomes()
    assert unseen_of(result) == UNSEEN
    seen = {field for field, changes in result.items() if "seen" in set().union(*changes.values())}
    assert len(UNSEEN.keys() - seen) <= MAX_BLIND * len(result)


if __name__ == "__main__":  # writes the list again, after bodies or relations have changed
    _LIST.write_text(json.dumps(unseen_of(found_outcomes()), indent=1, sort_keys=True) + "\n", "utf-8")
