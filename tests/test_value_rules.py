"""Values that no market makes: chains with missing options, shifted marks, limited and repeated rows."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.client import earlier
from tests.test_fetch_validation import always, answering

Body = dict[str, Any]
NOW = pd.Timestamp("2026-06-04T00:00", tz="UTC")
HOURS = pd.date_range("2026-06-01", periods=72, freq="h", tz="UTC")
STAMPS = [f"{stamp:%Y-%m-%dT%H:%M:%SZ}" for stamp in HOURS]
WINDOW = ("2026-06-01", "2026-06-04")
VENUES = ["binance", "bybit", "okx"]


def notices(body: Any, call: Callable[[], object]) -> list[str]:
    earlier.clear()
    with answering(always(body), now=NOW), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught]


def walk(first: float, seed: int = 1, step: float = 0.004) -> np.ndarray:
    return first * np.exp(np.cumsum(np.random.default_rng(seed).normal(0.0, step, len(STAMPS))))


def price(strike: float, years: float, side: str) -> float:
    """Return the price of an option in coins by Black (1976), at a forward of 100,000 and 50 %."""
    deviation = 0.5 * math.sqrt(years)
    upper = math.log(1e5 / strike) / deviation + deviation / 2
    sign = 1.0 if side == "call" else -1.0
    normal = NormalDist().cdf
    return sign * (normal(sign * upper) - strike / 1e5 * normal(sign * (upper - deviation)))


def chain() -> Body:
    days = {"2026-06-05": "5JUN26", "2026-06-12": "12JUN26", "2026-06-26": "26JUN26", "2026-09-25": "25SEP26"}
    rows = []
    for day, name in days.items():
        years = (pd.Timestamp(f"{day}T08:00", tz="UTC") - NOW) / pd.Timedelta(365, "D")
        for strike, side in itertools.product(range(60_000, 140_001, 5_000), ("call", "put")):
            mark = price(strike, years, side)
            rows.append(
                {
                    "instrument_name": f"BTC-{name}-{strike}-{side[0].upper()}",
                    "expiry": f"{day}T08:00:00Z",
                    "strike": float(strike),
                    "side": side,
                    "iv": 0.5,
                    "underlying_price": 1e5,
                    "open_interest": 10.0 + strike % 7,
                    "mark_coin": mark,
                    "mark_usd": mark * 1e5,
                    "ask_usd": mark * 1.05e5,
                }
            )
    return {"symbol": "BTC", "exchange": "deribit", "count": len(rows), "instruments": rows}


def without(condition: Callable[[Body], bool], body: Body) -> None:
    body["instruments"] = [row for row in body["instruments"] if not condition(row)]
    body["count"] = len(body["instruments"])


def without_volatility(body: Body) -> None:
    for row in body["instruments"]:
        if 90_000 < row["strike"] < 110_000 and row["side"] == "put":
            row["iv"] = 0.0


def other_calls(body: Body) -> None:
    for row in body["instruments"]:
        if row["side"] == "call" and row["expiry"] < "2026-06-26":
            row["mark_coin"] += 0.05
            row["mark_usd"] += 5_000.0


def placeholders(body: Body) -> None:
    for row in body["instruments"][::9]:
        row["ask_usd"] = 999_999.0


CHAINS: dict[str, tuple[Callable[[Body], None], str]] = {
    "an option": (
        partial(without, lambda row: row["instrument_name"] == "BTC-5JUN26-60000-P"),
        "1 of 68 strikes",
    ),
    "the next days": (
        partial(without, lambda row: row["expiry"] < "2026-06-12"),
        "first expiry is 8 days ahead: expected at most 4",
    ),
    "later months": (
        partial(without, lambda row: row["expiry"] > "2026-06-26T09"),
        "last expiry is 22 days ahead: expected at least 30",
    ),
    "low strikes": (
        partial(without, lambda row: row["expiry"] < "2026-06-12" and row["strike"] < 103_000),
        "strikes of 2026-06-05 are from 105000 to 140000",
    ),
    "volatilities": (without_volatility, "iv is 0 in 12 options"),
    "calls of others": (other_calls, "call minus put of 2026-06-05 differs"),
    "placeholders": (placeholders, "ask_usd is 999999 USD in 16 options"),
}


def test_a_true_chain_has_no_notice() -> None:
    assert notices(chain(), lambda: dd.options.snapshot("BTC", "deribit")) == []


@pytest.mark.parametrize("moves", [0.0, 1e-6])
def test_one_index_for_all_expiries_has_no_notice(moves: float) -> None:
    """The forward of September is 4 % above an index, which moves while the venue publishes its rows."""
    body = chain()
    for place, row in enumerate(body["instruments"]):
        row["underlying_price"] = 0.96e5 * (1.0 + moves * (place % 5))
        row["mark_coin"] = row["mark_usd"] / row["underlying_price"]
        row["iv"] = None
    without(lambda row: row["expiry"] < "2026-09-25", body)
    assert notices(body, lambda: dd.options.snapshot("BTC", "deribit")) == []


def test_a_chain_without_underlying_has_no_notice_of_its_strikes() -> None:
    body = chain()
    for row in body["instruments"]:
        row["underlying_price"] = None
    assert notices(body, lambda: dd.options.snapshot("BTC", "deribit")) == []


def test_marks_in_dollars_are_compared_with_parity() -> None:
    body = chain()
    other_calls(body)
    for row in body["instruments"]:
        del row["mark_coin"]
    message = " ".join(notices(body, lambda: dd.options.snapshot("BTC", "deribit")))
    assert "call minus put of 2026-06-05 differs" in message


@pytest.mark.parametrize("name", CHAINS)
def test_a_wrong_chain_has_a_notice(name: str) -> None:
    change, text = CHAINS[name]
    body = chain()
    change(body)
    assert text in " ".join(notices(body, lambda: dd.options.snapshot("BTC", "deribit")))


def prices() -> Body:
    shared = walk(1e5)
    series = {
        venue: [
            {"timestamp": stamp, "y": float(value)}
            for stamp, value in zip(STAMPS, np.round(shared * (1 + 1e-4 * place) + own, 2), strict=True)
        ]
        for place, (venue, own) in enumerate((venue, walk(3.0, seed=9 + n)) for n, venue in enumerate(VENUES))
    }
    return {"symbol": "BTC", "unit": "usd", "kind": "mark", "resolution": "1h", "series": series}


def history() -> object:
    return dd.prices.history("BTC", *WINDOW, resolution="1h", venues=VENUES)


def test_one_row_again_at_all_venues_has_a_notice() -> None:
    body = prices()
    assert notices(body, history) == []
    for venue in VENUES[:2]:
        body["series"][venue][30]["y"] = body["series"][venue][29]["y"]
    assert notices(body, history) == []  # the third venue moves
    body["series"]["okx"][30]["y"] = body["series"]["okx"][29]["y"]
    assert "price_usd of all 3 venues at 2026-06-02 06:00" in " ".join(notices(body, history))


def futures(*, shift: int = 0, is_copied: bool = False) -> Body:
    index = walk(1e5)
    marks = np.roll(index, shift) * 1.01
    if is_copied:
        marks = index
    rows = [
        {
            "timestamp": stamp,
            "instrument_name": "BTCUSDT_260925",
            "expiry": "2026-09-25T08:00:00Z",
            "price_usd": float(mark),
            "index_price_usd": float(level),
        }
        for stamp, mark, level in zip(STAMPS, marks, index, strict=True)
    ]
    return {"symbol": "BTC", "unit": "usd", "resolution": "1h", "series": {"binance": rows}}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (futures(), ""),
        (
            futures(shift=1),
            "one row apart: one of them may be shifted",
        ),
        (futures(is_copied=True), "price_usd and index_price_usd of BTC binance are equal"),
    ],
)
def test_marks_of_futures_move_with_their_index(body: Body, text: str) -> None:
    messages = notices(body, lambda: dd.futures.history("BTC", *WINDOW, resolution="1h", venues=["binance"]))
    assert (text in " ".join(messages)) if text else messages == []


@pytest.mark.parametrize(
    ("symbol", "instrument"),
    [
        ("1000SHIB", "SHIBUSDT_260925"),
        ("kPEPE", "1000PEPEUSDT_260925"),
        ("A", "EOSUSDT_260925"),  # the ticker of Vaulta before 2025
        ("BTC", "XBTUSDTU26"),
    ],
)
def test_dated_futures_may_have_another_name_of_their_coin(symbol: str, instrument: str) -> None:
    body = futures() | {"symbol": symbol}
    for row in body["series"]["binance"]:
        row["instrument_name"] = instrument
    assert (
        notices(body, lambda: dd.futures.history(symbol, *WINDOW, resolution="1h", venues=["binance"])) == []
    )


@pytest.mark.parametrize(
    ("rates", "text"),
    [
        (
            np.where(np.arange(120) % 4 == 0, 0.0, 1.1 + 0.3 * np.sin(np.arange(120))),
            "is 0 in 30 of 120 rows",
        ),
        (70.0 + np.sin(np.arange(120)), "expected at most 45 bps per 8 hours"),
        (1.1 + 0.3 * np.sin(np.arange(120)), ""),
    ],
)
def test_rates_of_large_coins_are_small_and_rarely_zero(rates: np.ndarray, text: str) -> None:
    stamps = pd.date_range("2026-05-30", periods=120, freq="h", tz="UTC")
    rows = [
        {"timestamp": f"{stamp:%Y-%m-%dT%H:%M:%SZ}", "y": float(rate)}
        for stamp, rate in zip(stamps, rates, strict=True)
    ]
    body = {"symbol": "BTC", "unit": "bps_8h", "resolution": "1h", "series": {"okx": rows}}
    messages = notices(
        body, lambda: dd.funding.history("BTC", "2026-05-30", "2026-06-04", resolution="1h", venues=["okx"])
    )
    assert (text in " ".join(messages)) if text else messages == []


@pytest.mark.parametrize(("venue", "count"), [("okx", 1), ("risex", 0)])
def test_only_volumes_of_large_venues_do_not_multiply(venue: str, count: int) -> None:
    """30 times as much from the second day on, as after a launch."""
    hours = np.arange(len(STAMPS))
    volumes = 1e8 * np.exp(0.4 * np.sin(hours**2)) * np.where(hours < 24, 1.0, 30.0)
    rows = [
        {"timestamp": stamp, "exchange": venue, "volume_usd": float(volume)}
        for stamp, volume in zip(STAMPS, volumes, strict=True)
    ]
    body = {"symbol": "BTC", "unit": "usd", "resolution": "1h", "data": rows}
    messages = notices(body, lambda: dd.volume.history("BTC", *WINDOW, resolution="1h", venues=[venue]))
    assert len([text for text in messages if "as in the other rows" in text]) == count


@pytest.mark.parametrize("factor", [1.0, 0.1])
def test_wicks_are_near_the_candle(factor: float) -> None:
    close = walk(300.0)
    rows = [
        {
            "timestamp": stamp,
            "open": float(value),
            "high": float(value) * 1.02,
            "low": float(value) * 0.98 * (factor if place < 5 else 1.0),
            "close": float(value) * 1.001,
            "volume": 10.0 + place**1.5,
        }
        for place, (stamp, value) in enumerate(zip(STAMPS, close, strict=True))
    ]
    body = {"success": True, "coin": "xyz:TSLA", "interval": "1h", "data": rows}
    messages = notices(body, lambda: dd.hip3.candles("xyz:TSLA", *WINDOW))
    assert [
        text for text in messages if "low differs from open and close by over 5 times" in text
    ] == messages
    assert len(messages) == (factor < 1.0)
