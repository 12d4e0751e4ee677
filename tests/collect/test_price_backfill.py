"""Past prices and sampled rates of the venues, held to what the fake venues know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from derivdata.sources.archive import Archive
from tests.collect.fakes import Fakes, SimulatedClock

NOW = "2026-02-01T00:30:00"
START, END = "2026-01-28", "2026-02-01"
FIRST, LAST = (pd.Timestamp(text, tz="UTC") for text in (START, END))


@pytest.fixture
def fakes(clock: SimulatedClock) -> Iterator[Fakes]:
    with Fakes(int(LAST.timestamp()) + 1800, clock.utc) as running:
        yield running


def kinds(archive: Archive) -> dict[str, pd.DataFrame]:
    rows = archive.read("prices_history", FIRST, LAST)
    return {str(kind): part.set_index("time") for kind, part in rows.groupby("kind", observed=True)}


def inside(rows: list[tuple[int, float]]) -> pd.Series:
    found = {pd.Timestamp(s, unit="s", tz="UTC"): price for s, price in rows}
    return pd.Series({t: p for t, p in found.items() if FIRST <= t < LAST})


def hold(frame: pd.DataFrame, truth: pd.Series, resolution: str) -> None:
    assert frame.index.tolist() == truth.index.tolist()
    np.testing.assert_array_equal(frame["price_usd"], truth)
    assert set(frame["resolution"]) == {resolution}


def test_deribit_tells_its_index_beside_the_payments(fill: Any, archive: Archive, fakes: Fakes) -> None:
    done = fill("prices_history", "deribit")
    assert (done.failed, done.notices) == ([], [])
    hours = range(int(FIRST.timestamp()), int(LAST.timestamp()), 3600)
    found = kinds(archive)
    assert set(found) == {"index"}
    hold(found["index"], inside([(s, fakes.truth.index(s)) for s in hours]), "1h")
    assert fill("prices_history", "deribit").written == {}  # the ledger has the window


def test_gate_tells_its_mark_beside_the_open_interest(fill: Any, archive: Archive, fakes: Fakes) -> None:
    done = fill("prices_history", "gateio")
    assert done.failed == []
    found = kinds(archive)
    assert set(found) == {"mark"}
    hold(found["mark"], inside([(s, mark) for s, _, mark in fakes.truth.oi("BTC")]), "5m")


@pytest.mark.parametrize(
    ("venue", "known"),
    [
        ("binance", {"mark": 0.0, "last": 1.0, "index": -2.0}),
        *((v, {"mark": 0.0, "index": -2.0}) for v in ("bybit", "okx")),
    ],
)
def test_candles_are_asked_only_where_unconfirmed_requests_are_wanted(
    venue: str, known: dict[str, float], fill: Any, archive: Archive, fakes: Fakes
) -> None:
    """A candle's price is its open, at its start; binance has candles of trades too."""
    done = fill("prices_history", venue)
    assert done.notices == [
        f"{venue} has no confirmed request for the past of prices_history: only what is polled is there"
    ]
    assert archive.requests().empty
    assert fill("prices_history", venue, unconfirmed=True).failed == []
    found = kinds(archive)
    assert set(found) == set(known)
    for kind, above in known.items():
        hold(found[kind], inside([(s, mark + above) for s, mark in fakes.truth.bars("BTC")]), "1h")


@pytest.mark.parametrize("venue", ["binance", "bybit", "okx"])
def test_the_past_of_dated_futures_is_the_mark_beside_the_index(
    venue: str, fill: Any, archive: Archive, fakes: Fakes
) -> None:
    """Of those that are listed: the ledger has no window of them, since others may have expired in it."""
    fakes.extras = True
    assert fill("futures_history", venue, unconfirmed=True).failed == []
    rows = archive.read("futures_history", FIRST, LAST).set_index("time")
    assert set(rows["expiry"]) == {pd.Timestamp("2026-03-27T08:00Z")}
    truth = inside(fakes.truth.bars("BTC"))
    hold(rows, truth, "1h")
    np.testing.assert_array_equal(rows["index_price_usd"], truth - 2.0)
    assert archive.requests().empty


def test_paradex_has_a_row_of_its_rate_for_every_minute(fill: Any, archive: Archive) -> None:
    """Of rows five seconds apart the newest of each minute; a fraction of 8 hours is 10,000 bps."""
    start = LAST - pd.Timedelta(1, "h")
    assert fill("funding_history", "paradex", start=start).failed == []
    rows = archive.read("funding_history", start, LAST)
    assert 59 <= len(rows) <= 61
    assert rows["time"].diff().dropna().max() <= pd.Timedelta(1, "min")
    seconds = rows["time"].astype("int64") // 1_000_000
    np.testing.assert_allclose(rows["rate_bps_8h"], seconds % 1000 * 1e-3, atol=1e-9)
    assert (rows["kind"] == "sampled").all()
