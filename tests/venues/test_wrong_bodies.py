"""Well-formed but wrong bodies of histories, read by `dd.venues.read` alone.

Every change of `CHANGES` is applied to each applicable body of `BODIES`: an error, a notice, without effect,
or listed in `REASONS`. Only the body is known: no peers, no stored rows, no window.
"""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import DataNotice, DerivdataError
from tests.collect.test_other_answers import rows_in
from tests.collect.test_wrong_histories import CHANGES, Unfit, times_of

AT = "2026-02-01T00:10:00Z"
END_MS = 1_769_904_000_000  # 2026-02-01T00:00:00Z
HOUR = 3_600_000
ROWS = 120


def rates(step: float) -> list[float]:
    """Return rates of an interval: a slow oscillation with a daily one, and the interest of 0.0001."""
    numbers = np.arange(ROWS)
    raw = 1.3 + 1.6 * np.sin(numbers / 9.7) + 0.7 * np.sin(numbers * 1.9) + 0.2 * np.cos(numbers * 0.37)
    clamped = np.where(np.abs(raw - 1.0) < 1.0, 1.0, raw)
    return [float(value) for value in np.round(clamped * 1e-4 * step / 8.0, 10)]


def levels(first: float) -> list[float]:
    numbers = np.arange(ROWS)
    moves = 0.01 * np.sin(numbers / 7.0) + 0.004 * np.sin(numbers * 2.3) + 0.0003 * numbers
    return [float(value) for value in np.round(first * np.exp(moves), 4)]


def stamps(hours: float) -> list[int]:
    return [END_MS - int(hours * HOUR) * (ROWS - 1 - number) for number in range(ROWS)]


def text(value: float) -> str:
    return f"{value:.12f}".rstrip("0")


PAID = list(zip(stamps(8), rates(8), strict=True))
HOURLY = list(zip(stamps(1), rates(1), strict=True))
PRICES = levels(90_000.0)
COINS = levels(80_000.0)
BODIES: dict[str, tuple[str, str, Any]] = {
    "binance payments": (
        "binance",
        f"/fapi/v1/fundingRate?symbol=BTCUSDT&startTime={PAID[0][0]}&endTime={END_MS}&limit=1000",
        [{"symbol": "BTCUSDT", "fundingTime": t, "fundingRate": text(r), "markPrice": ""} for t, r in PAID],
    ),
    "bybit payments": (
        "bybit",
        "/v5/market/funding/history?category=linear&symbol=BTCUSDT"
        f"&startTime={PAID[0][0]}&endTime={END_MS}&limit=200",
        {
            "retCode": 0,
            "retMsg": "OK",
            "result": {
                "category": "linear",
                "list": [
                    {"symbol": "BTCUSDT", "fundingRate": text(r), "fundingRateTimestamp": str(t)}
                    for t, r in PAID[::-1]
                ],
            },
            "time": END_MS,
        },
    ),
    "okx payments": (
        "okx",
        "/api/v5/public/funding-rate-history?instId=BTC-USDT-SWAP"
        f"&before={PAID[0][0] - 1}&after={END_MS + 1}&limit=400",
        {
            "code": "0",
            "msg": "",
            "data": [
                {"instId": "BTC-USDT-SWAP", "realizedRate": text(r), "fundingTime": str(t)}
                for t, r in PAID[::-1]
            ],
        },
    ),
    "gateio payments": (
        "gateio",
        "/futures/usdt/funding_rate?contract=BTC_USDT"
        f"&from={PAID[0][0] // 1000}&to={END_MS // 1000}&limit=1000",
        [{"t": t // 1000, "r": text(r)} for t, r in PAID[::-1]],
    ),
    "hyperliquid payments": (
        "hyperliquid",
        f"/info fundingHistory?coin=BTC&startTime={HOURLY[0][0]}&endTime={END_MS}",
        [{"coin": "BTC", "fundingRate": text(r), "premium": "0.0", "time": t} for t, r in HOURLY],
    ),
    "deribit payments": (
        "deribit",
        "/public/get_funding_rate_history?instrument_name=BTC-PERPETUAL"
        f"&start_timestamp={HOURLY[0][0]}&end_timestamp={END_MS}",
        {
            "jsonrpc": "2.0",
            "result": [
                {
                    "timestamp": t,
                    "interest_1h": r,
                    "interest_8h": 8 * r,
                    "index_price": p,
                    "prev_index_price": p,
                }
                for (t, r), p in zip(HOURLY, PRICES, strict=True)
            ],
        },
    ),
    "binance open interest": (
        "binance",
        f"/futures/data/openInterestHist?symbol=BTCUSDT&period=1h&startTime={HOURLY[0][0]}&endTime={END_MS}&limit=500",
        [
            {
                "symbol": "BTCUSDT",
                "sumOpenInterest": text(c),
                "sumOpenInterestValue": text(c * p),
                "timestamp": t,
            }
            for t, c, p in zip(stamps(1), COINS, PRICES, strict=True)
        ],
    ),
    "okx open interest": (
        "okx",
        "/api/v5/rubik/stat/contracts/open-interest-history?instId=BTC-USDT-SWAP&period=1H"
        f"&begin={HOURLY[0][0]}&end={END_MS}&limit=200",
        {
            "code": "0",
            "msg": "",
            "data": [
                [str(t), text(c * 100), text(c), text(c * p)]
                for t, c, p in zip(stamps(1), COINS, PRICES, strict=True)
            ][::-1],
        },
    ),
    "bybit mark prices": (
        "bybit",
        "/v5/market/mark-price-kline?category=linear&symbol=BTCUSDT&interval=60"
        f"&start={HOURLY[0][0]}&end={END_MS}&limit=1000",
        {
            "retCode": 0,
            "retMsg": "OK",
            "result": {
                "symbol": "BTCUSDT",
                "category": "linear",
                "list": [
                    [str(t), text(p), text(p * 1.001), text(p * 0.999), text(p)]
                    for t, p in zip(stamps(1), PRICES, strict=True)
                ][::-1],
            },
            "time": END_MS,
        },
    ),
}
"""By name the venue, the request and the body."""

_FLOOR = "the interest of the venue's formula repeats: 84 times in a row on kucoin and binance, 2020 to 2023"
REASONS: dict[str, str] = {
    "binance payments: the last half stands still": _FLOOR,
    "bybit payments: the last half stands still": _FLOOR,
    "okx payments: the first third is missing": "a request of the newest payments states no start",
    "okx payments: the last half stands still": _FLOOR,
    "gateio payments: the last half stands still": _FLOOR,
    "hyperliquid payments: the last half stands still": _FLOOR,
}
"""Changes that nothing in the body contradicts, with the reason."""


def read(venue: str, request: str, body: Any) -> tuple[dict[str, pd.DataFrame], list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        frames = dd.venues.read(venue, request, json.dumps(body), at=AT)
    return frames, [str(notice.message) for notice in caught]


def changed(change: Callable[[list[Any]], None], body: Any) -> Any:
    """Return a body with a change in its rows, None if it does not apply."""
    body = copy.deepcopy(body)
    lists = [body] if isinstance(body, list) else rows_in(body)
    is_changed = False
    for rows in lists:
        try:
            if not rows or not all(times_of(row) for row in rows):
                continue
            before = copy.deepcopy(rows)
            change(rows)
            is_changed |= rows != before
        except Unfit:
            continue
    return body if is_changed else None


def outcome(name: str, change: Callable[[list[Any]], None]) -> str:
    venue, request, body = BODIES[name]
    true, _ = read(venue, request, body)
    wrong = changed(change, body)
    if wrong is None:
        return "unfit"
    try:
        frames, said = read(venue, request, wrong)
    except DerivdataError as problem:
        return f"refused: {problem}"
    if said:
        return f"notice: {said[0]}"
    return "held" if all(frames[table].equals(true[table]) for table in true) else "silent"


def test_wrong_bodies_are_detected_or_listed() -> None:
    """At most one change in twenty is undetected, and each of these is listed with its reason."""
    results = {
        f"{name}: {title}": outcome(name, change) for name in BODIES for title, change in CHANGES.items()
    }
    made = {title: kind for title, kind in results.items() if kind != "unfit"}
    silent = [title for title, kind in made.items() if kind == "silent"]
    assert len(made) >= 200
    assert silent == list(REASONS)
    assert len(silent) <= 0.05 * len(made)


@pytest.mark.parametrize("name", BODIES)
def test_valid_bodies_give_no_notice(name: str) -> None:
    frames, said = read(*BODIES[name])
    assert said == []
    assert max(len(rows) for rows in frames.values()) == ROWS
