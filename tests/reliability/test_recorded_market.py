"""Recorded markets as responses of the hosted API: no rule has a notice but those that are true.

Windows, steps and venues are drawn with a fixed seed, six times as many in a soak.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata import tables
from derivdata.client import earlier
from derivdata.client.transport import SESSION
from derivdata.errors import DataNotice
from derivdata.sources.venues.row_checks import body_doubts, size_doubts
from tests.reliability import recorded_market
from tests.reliability.promises import SOAK
from tests.reliability.recorded_market import RecordedApi, Snapshots, payments

DRAWS = 6 if SOAK else 1
_SEED = 20_261_130

_MISSING = re.compile(
    "are missing, first |the contract may be listed later|: no rows in the window|the response has no rows"
)
"""Notices of missing rows, which `tests/test_history_rows_reference.py` compares with a slow count."""
STALE = (
    # The rate of both coins stands still for hours, while the 38 other venues move: a feed that stopped.
    # The first two are of windows in which all rows are equal.
    "rate_bps_8h of BTC txflow is 0.383472",
    "rate_bps_8h of ETH txflow is 1.78614",
    "rate_bps_8h of BTC txflow is constant at 0.383472",
    "rate_bps_8h of ETH txflow is constant at 1.78614",
)
"""Notices that are true, as read in the data."""


@pytest.fixture
def api() -> Iterator[RecordedApi]:
    recorded = RecordedApi()
    recorded.as_of = pd.Timestamp("2026-09-01", tz="UTC")
    restore = SESSION.install(responder=recorded.respond, clock=recorded.clock)
    yield recorded
    restore()


def notices(call: Callable[[], Any]) -> set[str]:
    """Return the notices of a call, without the request, the rest of the sentence and missing rows."""
    return fetched(call)[1]


def fetched(call: Callable[[], Any]) -> tuple[Any, set[str]]:
    """Return the table of a call, and its `notices`."""
    earlier.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        table = call()
    texts = [str(warning.message).partition(": ")[2] for warning in caught]
    return table, {re.split(" in all | from ", text)[0] for text in texts if not _MISSING.search(text)}


def same(body: recorded_market.Body, _parameters: dict[str, str]) -> recorded_market.Body:
    """Return one body for every request."""
    return body


def drawn_window(rng: np.random.Generator, first: str, last: str, hours: list[float]) -> tuple[Any, Any]:
    """Return a window of whole hours within the recorded time."""
    begin, stop = (pd.Timestamp(text, tz="UTC") for text in (first, last))
    length = pd.Timedelta(float(rng.choice(hours)), "h")
    latest = max((stop - begin - length) // pd.Timedelta(1, "h"), 1)
    start = begin + pd.Timedelta(int(rng.integers(latest)), "h")
    return start, start + length


def drawn_venues(rng: np.random.Generator, venues: list[str]) -> list[str] | None:
    """Return some venues, or None for all."""
    count = int(rng.choice([0, 1, 2, 3, 4, 6, 10, 20]))
    return sorted(rng.choice(venues, min(count, len(venues)), replace=False).tolist()) if count else None


def test_recorded_rates_have_notices_of_a_feed_that_stood_still(api: RecordedApi) -> None:
    recorded = Snapshots()
    api.body = recorded.history
    rng = np.random.default_rng(_SEED)
    result: set[str] = set()
    for _ in range(400 * DRAWS):
        start, end = drawn_window(
            rng, "2026-08-09T21:00", "2026-08-16T00:00", [6, 9, 12, 24, 36, 48, 72, 120]
        )
        resolution = str(rng.choice(["raw", "raw", "1h", "2h"]))
        call = partial(
            dd.funding.history,
            str(rng.choice(["BTC", "ETH"])),
            start,
            end,
            venues=drawn_venues(rng, recorded.venues),
            resolution=resolution,
        )
        # Snapshots of the first days are up to 69 minutes apart
        result |= {text for text in notices(call) if not text.startswith("off the resolution")}
    assert result == {*STALE}


def test_recorded_snapshots_have_no_notice(api: RecordedApi) -> None:
    recorded = Snapshots()
    for place, time in enumerate(recorded.times):
        api.as_of = time + pd.Timedelta(5, "s")
        api.body = partial(same, recorded.snapshot(place))
        assert notices(dd.funding.snapshot) == set(), time


PERIODS = {
    "2020-2023": ("2020-01-01", "2024-01-01"),
    "linear": ("2020-01-01", "2024-07-02"),
    "coin": ("2023-01-01", "2024-07-02"),
}


@pytest.mark.parametrize("kind", PERIODS)
def test_recorded_payments_have_no_notice(kind: str, api: RecordedApi) -> None:
    api.body = partial(recorded_market.settlements, kind)
    venues = sorted({venue for _, venue in payments(kind)})
    rng = np.random.default_rng(_SEED)
    days = [1, 2, 4, 7, 14, 30, 60, 120, 365]
    for _ in range(120 * DRAWS):
        start, end = drawn_window(rng, *PERIODS[kind], [24.0 * count for count in days])
        symbol = str(rng.choice(["BTC", "ETH"]))
        call = partial(dd.funding.settlements, symbol, start, end, venues=drawn_venues(rng, venues))
        assert notices(call) == set(), (symbol, start, end)


def test_recorded_open_interest_has_no_notice(api: RecordedApi) -> None:
    """Of DOGE it grew tenfold in half a year, which is not far from the usual of any month."""
    api.body = recorded_market.open_interest
    rng = np.random.default_rng(_SEED)
    windows = [(symbol, "2025-03-08", "2025-09-04", "1d") for symbol in recorded_market.interest_symbols()]
    for _ in range(120 * DRAWS):
        symbol = str(rng.choice(recorded_market.interest_symbols()))
        days = [24.0 * count for count in (1, 3, 7, 14, 30, 90, 180, 360)]
        window = drawn_window(rng, "2025-03-08T08:00", "2026-03-07T08:00", days)
        windows.append((symbol, *window, str(rng.choice(["1h", "4h", "1d"]))))
    for symbol, start, end, resolution in windows:
        call = partial(dd.oi.history, symbol, start, end, resolution=resolution)
        assert notices(call) == set(), (symbol, start, end, resolution)


@pytest.mark.parametrize("margin", ["linear", "coin"])
def test_recorded_prices_have_no_notice(margin: str, api: RecordedApi) -> None:
    api.body = partial(recorded_market.prices, margin)
    rng = np.random.default_rng(_SEED)
    days = [24.0 * count for count in (2, 7, 30, 90, 365, 540)]
    for _ in range(60 * DRAWS):
        start, end = drawn_window(rng, "2023-01-02", "2024-07-01", days)
        symbol = str(rng.choice(["BTC", "ETH"]))
        call = partial(dd.prices.history, symbol, start, end, resolution="8h")
        assert notices(call) == set(), (symbol, start, end)


@pytest.mark.parametrize("has_prices", [True, False])
def test_recorded_chains_have_no_notice(has_prices: bool, api: RecordedApi) -> None:
    """With prices as an archive has them, and without as the API does."""
    for symbol, time, options in recorded_market.chains():
        api.as_of = time + pd.Timedelta(10, "s")
        names = {
            name for name in options[0] if has_prices or not re.search("bid|ask|mark|index|volume", name)
        }
        rows = [{name: value for name, value in option.items() if name in names} for option in options]
        api.body = partial(same, {"symbol": symbol, "exchange": "deribit", "instruments": rows})
        chain, result = fetched(partial(dd.options.snapshot, symbol, "deribit"))
        assert result == set(), (symbol, time)
        assert [*size_doubts(chain)] == []


def test_recorded_liquidations_have_no_notice(api: RecordedApi) -> None:
    """Orders of one time are fills of one order, which the file does not join."""
    orders = recorded_market.liquidations()
    api.body = lambda parameters: {"events": orders[-int(parameters["limit"]) :]}
    for limit in (100, 500, 2243):
        events, result = fetched(partial(dd.liquidations.events, limit=limit))
        assert {text for text in result if "more orders may exist" not in text} == set()
        assert len(events) == limit
        assert [*size_doubts(events)] == []


@pytest.mark.parametrize("kind", PERIODS)
def test_recorded_payments_are_not_in_doubt_as_bodies_of_venues(kind: str, api: RecordedApi) -> None:
    """Windows without missing payments, as one page of a venue."""
    api.body = partial(recorded_market.settlements, kind)
    rng = np.random.default_rng(_SEED)
    count = 0
    table = tables.TABLES["funding_settlements"]
    for _ in range(40 * DRAWS):
        start, end = drawn_window(rng, *PERIODS[kind], [24.0 * days for days in (2, 7, 30, 90, 330)])
        symbol = str(rng.choice(["BTC", "ETH"]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataNotice)
            frame = dd.funding.settlements(symbol, start, end)
        for venue, rows in frame.groupby("exchange", observed=True):
            said = [*body_doubts(str(venue), "funding_settlements", table.conform(rows))]
            count += 1
            assert [text for text in said if "are missing, first after" not in text] == [], (
                venue,
                start,
                end,
            )
    assert count > 60
