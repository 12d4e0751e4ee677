"""The rest of the hand-written market: books, depth, option overview, trading hours, outcomes, builders."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tests.service.market import at

_EXPIRY = "2026-07-31 08:00"


def frames() -> dict[str, pd.DataFrame]:
    return {
        "orderbook_book": book(),
        "orderbook_depth_history": depth(),
        "prices_history": marks(),
        "options_overview_history": overview(),
        "rwa_market_hours": hours(),
        "hip3_traders": hip3_traders(),
        "hip3_hourly_candles": hip3_candles(),
        "hip4_traders": hip4_traders(),
        "hip4_oi": hip4_oi(),
        "builders_history": builders(),
    }


def table(names: str, rows: list[tuple[Any, ...]], **constants: Any) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=names.split()).assign(**constants)
    for name in ("time", "start", "end", "next_session_start"):
        if name in frame:
            frame[name] = [at(text) for text in frame[name]]
    return frame


def earlier_chain() -> pd.DataFrame:
    """BTC on deribit two minutes before noon of 29 June, with the underlying at 59,100."""
    rows = [
        ("BTC-31JUL26-58000-C", 58000.0, "call", 0.60),
        ("BTC-31JUL26-60000-C", 60000.0, "call", 0.50),
        ("BTC-31JUL26-60000-P", 60000.0, "put", 0.52),
    ]
    return table(
        "instrument_name strike side iv",
        rows,
        symbol="BTC",
        exchange="deribit",
        expiry=at(_EXPIRY),
        delta=float("nan"),
        gamma=float("nan"),
        vega=float("nan"),
        theta=float("nan"),
        open_interest=1.0,
        underlying_price=59100.0,
    ).assign(time=at("2026-06-29 11:58"))


def book() -> pd.DataFrame:
    """Two levels a side at 11:58; an older book had three."""
    rows = [
        ("2026-06-30 11:58", "bid", 1, 99.0, 1.0),
        ("2026-06-30 11:58", "bid", 2, 98.0, 2.0),
        ("2026-06-30 11:58", "ask", 1, 101.0, 3.0),
        ("2026-06-30 11:58", "ask", 2, 102.0, 4.0),
        ("2026-06-30 11:30", "bid", 1, 90.0, 9.0),
        ("2026-06-30 11:30", "bid", 2, 89.0, 9.0),
        ("2026-06-30 11:30", "bid", 3, 88.0, 9.0),
    ]
    return table("time side level price_usd size", rows, symbol="BTC", exchange="binance")


def depth() -> pd.DataFrame:
    """Twice as deep at 11:30 as at 11:00."""
    rows = [
        (time, bps, factor * bps, factor * bps + 1.0)
        for time, factor in (("2026-06-30 11:00", 10.0), ("2026-06-30 11:30", 20.0))
        for bps in (10.0, 25.0, 50.0, 100.0)
    ]
    names = "time depth_bps bid_depth_usd ask_depth_usd"
    return table(names, rows, symbol="BTC", exchange="binance")


def marks() -> pd.DataFrame:
    """BTC: polls of binance five seconds after a minute, and hourly candles of hyperliquid."""
    polls = table(
        "time price_usd kind",
        [
            ("2026-06-30 10:00:05", 100.0, "mark"),
            ("2026-06-30 10:59:05", 101.0, "mark"),
            ("2026-06-30 10:59:05", 100.5, "index"),
            ("2026-06-30 11:00:05", 102.0, "mark"),
            ("2026-06-30 11:30:05", 103.0, "mark"),
            ("2026-06-30 12:00:00", 104.0, "mark"),
        ],
        symbol="BTC",
        exchange="binance",
        resolution="raw",
    )
    candles = table(
        "time price_usd",
        [("2026-06-30 10:00", 99.0), ("2026-06-30 11:00", 98.0)],
        symbol="BTC",
        exchange="hyperliquid",
        kind="mark",
        resolution="1h",
    )
    return pd.concat([polls, candles], ignore_index=True)


def overview() -> pd.DataFrame:
    rows = [
        ("2026-06-30 11:00", "deribit", "BTC", 1000.0, 50.0),
        ("2026-06-30 12:00", "deribit", "BTC", 1100.0, 60.0),
        ("2026-06-30 12:00", "bybit", "ETH", 10.0, 1.0),
    ]
    return table("time exchange symbol notional_oi_usd notional_volume_24h_usd", rows)


def hours() -> pd.DataFrame:
    """NYSE is in its pre-market at noon; 3 July is a holiday. LSE is closed until tomorrow."""
    rows = [
        ("nyse", "pre", "2026-06-30 08:00", "2026-06-30 13:30", True),
        ("nyse", "regular", "2026-06-30 13:30", "2026-06-30 20:00", True),
        ("nyse", "holiday", "2026-07-03 04:00", "2026-07-04 04:00", False),
        ("lse", "regular", "2026-07-01 07:00", "2026-07-01 15:30", True),
    ]
    frame = table("exchange_id session start end is_tradable", rows)
    nyse = (frame["exchange_id"] == "nyse").to_numpy()
    return frame.assign(
        time=at("2026-06-30 12:00"),
        name=["New York" if n else "London" for n in nyse],
        short_name=["NYSE" if n else "LSE" for n in nyse],
        mic=["XNYS" if n else "XLON" for n in nyse],
        timezone=["America/New_York" if n else "Europe/London" for n in nyse],
        is_tradable_now=nyse,
        next_session_start=[at("2026-06-30 13:30") if n else at("2026-07-01 07:00") for n in nyse],
    )


def hip3_traders() -> pd.DataFrame:
    """The quarter of an hour that begins at noon is not over; XAU was traded ten days ago."""
    rows = [
        ("xyz", "TSLA", "0xa", "2026-06-29 13:00", 100.0, 2, 0.10, 0.05, 0.0, 0),
        ("xyz", "TSLA", "0xb", "2026-06-30 11:30", 300.0, 1, 0.30, 0.15, 50.0, 1),
        ("xyz", "NVDA", "0xa", "2026-06-30 11:45", 50.0, 1, 0.05, 0.025, 0.0, 0),
        ("flx", "TSLA", "0xa", "2026-06-30 11:45", 20.0, 1, 0.02, 0.01, 0.0, 0),
        ("xyz", "TSLA", "0xc", "2026-06-30 12:00", 999.0, 9, 9.00, 4.5, 0.0, 0),
        ("flx", "XAU", "0xc", "2026-06-20 00:00", 7.0, 1, 0.01, 0.005, 0.0, 0),
    ]
    names = (
        "dex symbol address time volume_usd trade_count fees_usd deployer_fees_usd liquidation_value_usd "
        "liquidation_count"
    )
    return table(names, rows)


def hip3_candles() -> pd.DataFrame:
    rows = [
        ("xyz", "TSLA", "2026-06-29 23:45", 10.0, 10.0, 10.0, 10.0, 4.0, 40.0),
        ("xyz", "TSLA", "2026-06-30 10:45", 10.0, 12.0, 9.0, 11.0, 5.0, 55.0),
        ("xyz", "TSLA", "2026-06-30 11:00", 11.0, 13.0, 10.0, 12.0, 6.0, 72.0),
        ("xyz", "TSLA", "2026-06-30 11:15", 12.0, 12.0, 8.0, 9.0, 7.0, 63.0),
        ("xyz", "TSLA", "2026-06-30 11:45", 9.0, 10.0, 9.0, 10.0, 8.0, 80.0),
        ("xyz", "TSLA", "2026-06-30 12:00", 10.0, 99.0, 1.0, 50.0, 9.0, 450.0),
        ("xyz", "NVDA", "2026-06-30 11:45", 5.0, 5.0, 5.0, 5.0, 1.0, 5.0),
        ("flx", "TSLA", "2026-06-30 11:45", 9.0, 9.0, 9.0, 9.0, 2.0, 18.0),
        ("flx", "XAU", "2026-06-20 00:00", 9.0, 9.0, 9.0, 9.0, 2.0, 18.0),
    ]
    return table("dex symbol time open_usd high_usd low_usd close_usd open_interest oi_usd", rows)


def hip4_traders() -> pd.DataFrame:
    rows = [
        ("out", "101", "0xa", "2026-06-29 13:00", 10.0, 1, 2, 0.1),
        ("skew", "101", "0xa", "2026-06-30 01:00", 5.0, 1, 1, 0.05),
        ("out", "102", "0xb", "2026-06-30 02:00", 40.0, 3, 4, 0.4),
        ("out", "103", "0xb", "2026-06-01 02:00", 1.0, 1, 1, 0.01),
    ]
    return table("venue outcome_id address time volume_usd trade_count fill_count fees_usd", rows)


def hip4_oi() -> pd.DataFrame:
    """A row at midnight is the end of the day before."""
    rows = [
        ("out", "101", "2026-06-30 00:00", 10.0, 6.0),
        ("skew", "101", "2026-06-30 00:00", 4.0, 2.5),
        ("out", "101", "2026-06-29 00:00", 9.0, 5.0),
        ("out", "101", "2026-05-30 00:00", 1.0, 1.0),
    ]
    return table("venue outcome_id time open_interest oi_usd", rows)


def builders() -> pd.DataFrame:
    rows = [
        ("axe", "BTC", "2026-06-30 10:00", 100.0, 4, 1.0),
        ("axe", "ETH", "2026-06-30 10:30", 50.0, 2, 0.5),
        ("bow", "BTC", "2026-06-29 15:00", 400.0, 8, 2.0),
        ("bow", "BTC", "2026-06-30 12:00", 999.0, 9, 9.0),
    ]
    return table("builder symbol time volume_usd trade_count fees_usd", rows)
