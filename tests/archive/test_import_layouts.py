"""Every declared layout by its own sample: values worked out by hand, imported in every order, and served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing.layouts import Layout, layouts, listing
from tests.archive.rates import EVER

# Of each sample: table, and cells of its first row in the order of the table, worked out by hand.
EXPECTED: dict[str, dict[str, dict[str, Any]]] = {
    "binance REST fundingRate": {
        "funding_settlements": {
            "symbol": "BTC", "exchange": "binance", "time": "2026-03-01T00:00Z", "rate_bps_8h": 1.0,
            "interval_hours": 8.0,
        }
    },
    "binance REST openInterestHist": {"oi_history": {"symbol": "BTC", "oi_usd": 6041490500.0}},
    "binance web export of funding rates": {
        "funding_settlements": {"time": "2025-06-18T08:00Z", "rate_bps_8h": -0.1752, "interval_hours": 8.0}
    },
    "binance EOHSummary": {
        "options_snapshot": {
            "symbol": "BTC", "time": "2023-10-20T07:00Z", "expiry": "2023-10-27T08:00Z", "strike": 33000.0,
            "side": "call", "iv": 0.4955, "mark_usd": 57.5, "open_interest": 12.5,
        }
    },
    # 10 contracts of 100 USD; 1,000 USD at 30,400 are 0.0328947 coins.
    "binance liquidationSnapshot": {
        "liquidations_fills": {"side": "long", "value_usd": 1000.0, "quantity": 1000.0 / 30400.0}
    },
    "candlefeed get_funding_rates": {
        "funding_settlements": {"symbol": "BTC", "exchange": "binance", "rate_bps_8h": 1.0}
    },
    "candlefeed get_open_interest": {
        "oi_history": {"symbol": "BTC", "exchange": "okx", "oi_usd": 2010033500.5}
    },
    "candlefeed get_liquidations": {
        "liquidations_fills": {"exchange": "bybit", "side": "long", "value_usd": 33500.0}
    },
    "ccxt fetch_funding_rate_history": {
        "funding_settlements": {"time": "2026-03-01T00:00Z", "rate_bps_8h": 1.0, "interval_hours": 8.0}
    },
    "ccxt fetch_funding_rates": {
        "funding_history": {"symbol": "BTC", "exchange": "bybit", "rate_bps_8h": 1.0}
    },
    "ccxt fetch_open_interest_history": {"oi_history": {"oi_usd": 6041490500.0}},
    "ccxt fetch_liquidations": {
        "liquidations_fills": {"side": "long", "value_usd": 33500.0, "quantity": 0.5}
    },
    "ccxt fetch_option_chain": {
        "options_snapshot": {
            "symbol": "BTC", "time": "2026-03-01T00:00:00.007Z", "expiry": "2026-03-27T08:00Z",
            "strike": 70000.0, "side": "call", "iv": 0.525, "bid_coin": 0.031,
        }
    },
    "coinmetrics market-funding-rates": {
        "funding_settlements": {"symbol": "BTC", "exchange": "binance", "rate_bps_8h": 1.0}
    },
    "coinmetrics market-openinterest": {
        "oi_history": {"symbol": "BTC", "exchange": "okx", "oi_usd": 2600000000.5}
    },
    "coinmetrics market-liquidations": {"liquidations_fills": {"side": "short", "value_usd": 33500.0}},
    "cryptodatadownload perpetual OHLCV": {
        "prices_history": {"time": "2026-03-01T00:00Z", "price_usd": 67000.25, "kind": "last"}
    },
    # The last Friday of November 2026 is the 27th; 16:00 in London is 16:00 UTC in winter.
    "databento statistics": {
        "futures_history": {"instrument_name": "BTCX6", "expiry": "2026-11-27T16:00Z", "price_usd": 91250.0}
    },
    "databento ohlcv": {"futures_history": {"symbol": "BTC", "exchange": "cme", "price_usd": 91250.0}},
    "freqtrade funding_rate": {
        "funding_settlements": {"symbol": "BTC", "exchange": "binance", "rate_bps_8h": 1.0}
    },
    "freqtrade funding_rate as candles": {
        "funding_settlements": {"symbol": "BTC", "exchange": "okx", "rate_bps_8h": 1.0}
    },
    "freqtrade mark and futures candles": {
        "prices_history": {"kind": "mark", "price_usd": 67000.5, "resolution": "8h"}
    },
    "hyperliquid-data funding": {
        "funding_settlements": {"exchange": "hyperliquid", "rate_bps_8h": 1.0, "interval_hours": 1.0}
    },
    "tardis options_chain": {
        "options_snapshot": {
            "symbol": "BTC", "exchange": "deribit", "expiry": "2020-06-09T08:00Z", "strike": 9875.0,
            "side": "put", "iv": 0.6289, "bid_coin": 0.0165, "delta": -0.61,
        }
    },
}  # fmt: skip
SAMPLES = [layout for layout in layouts() if layout.sample]


def _sample(folder: Path, layout: Layout, name: str = "") -> Path:
    path = folder / (name or layout.sample_name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(layout.sample.lstrip("\n"))
    return path


def test_every_sample_has_an_expectation() -> None:
    assert {layout.label for layout in SAMPLES} == {*EXPECTED}
    rows = listing()
    assert len(rows) == len(layouts())
    assert not rows["signature"].eq("").any()


@pytest.mark.parametrize("layout", SAMPLES, ids=lambda layout: layout.label)
def test_a_sample_is_recognised_without_an_option(tmp_path: Path, layout: Layout) -> None:
    shown: list[str] = []
    counts = import_files(
        None, _sample(tmp_path, layout), tmp_path / "to", accept=["unit"], show=shown.append
    )
    assert counts.written + counts.rejected == counts.read
    archive = open_archive(tmp_path / "to", create=False)
    assert archive.tables() == {*EXPECTED[layout.label]}
    for table, cells in EXPECTED[layout.label].items():
        row = archive.read(table, *EVER).iloc[0]
        for name, value in cells.items():
            if name in ("rate_bps_8h", "interval_hours") and pd.isna(row.get("interval_hours", 0.0)):
                # The sample has too few payments to confirm their interval: it pays what 8 hours would.
                assert row["rate_native"] == pytest.approx(cells["rate_bps_8h"] / 1e4, rel=1e-12)
                continue
            if name in ("time", "expiry"):
                assert row[name] == pd.Timestamp(value), name
            else:
                assert row[name] == (
                    pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
                ), name
        assert any(f"table     {table}:" in text and layout.label in text for text in shown)


@pytest.mark.parametrize("layout", SAMPLES, ids=lambda layout: layout.label)
def test_a_sample_is_written_once_in_any_order(tmp_path: Path, layout: Layout) -> None:
    path = _sample(tmp_path, layout)
    first = import_files(None, path, tmp_path / "to", accept=["unit"])
    again = import_files(None, [path, path], tmp_path / "to", accept=["unit"])
    assert again.written == 0
    assert again.present == 2 * first.written
    for table in EXPECTED[layout.label]:
        if layout.sample.lstrip().startswith(("[", "{")):
            continue
        head, *lines = layout.sample.lstrip("\n").splitlines()
        if head.startswith("http"):
            head, *lines = lines
        turned = _sample(tmp_path / "turned", layout)
        turned.write_text("\n".join([head, *lines[::-1], *lines]) + "\n")
        import_files(None, turned, tmp_path / "other", accept=["unit"])
        left, right = (open_archive(tmp_path / name).read(table, *EVER) for name in ("to", "other"))
        made = [name for name in ("order_id", "fill_id") if name in left]
        pd.testing.assert_frame_equal(
            left.drop(columns=made), right.drop(columns=made).drop_duplicates(ignore_index=True)
        )


@pytest.mark.filterwarnings("ignore::derivdata.errors.DataNotice")
@pytest.mark.parametrize("layout", SAMPLES, ids=lambda layout: layout.label)
def test_what_a_sample_stored_is_served(tmp_path: Path, layout: Layout) -> None:
    import_files(None, _sample(tmp_path, layout), tmp_path / "to", accept=["unit"])
    for table in EXPECTED[layout.label]:
        rows = open_archive(tmp_path / "to").read(table, *EVER)
        dd.connect(str(tmp_path / "to"), now=rows["time"].max() + pd.Timedelta(1, "min"))
        assert len(_served(table, rows)), table


def _served(table: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Fetch the rows of a table as a user does."""
    start = rows["time"].min().floor("D") - pd.Timedelta(1, "D")
    window = start, rows["time"].max().ceil("D") + pd.Timedelta(1, "D")
    symbol, venue = str(rows["symbol"].iloc[0]), str(rows["exchange"].iloc[0])
    if table == "options_snapshot":
        return dd.options.snapshot(symbol, venue)
    if table == "liquidations_fills":
        return dd.liquidations.events(since=start)
    if table == "funding_settlements":
        return dd.funding.settlements(symbol, *window)
    if table == "prices_history":
        return dd.prices.history(symbol, *window, kind=str(rows["kind"].iloc[0]), resolution="raw")
    family = {"funding_history": dd.funding, "oi_history": dd.oi, "futures_history": dd.futures}[table]
    return family.history(symbol, *window, resolution="raw")
