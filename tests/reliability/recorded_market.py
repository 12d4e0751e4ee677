"""Recorded market data as responses of the hosted API, in the shape of the API document."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from derivdata.client.transport import Response
from derivdata.tables.endpoints import Request
from tests.support.recorded_funding import first_set, perpetuals, second_set
from tests.support.shared import shared_path

Body = dict[str, Any]

_SLUGS = {"gate": "gateio", "htx": "huobi"}
"""The API's names of venues that the recorded files name otherwise."""


class RecordedApi:
    """Respond to every request with a body of recorded rows.

    Attributes
    ----------
    body
        Returns the body of a request, by its parameters.
    as_of
        Time of the responses.
    """

    body: Callable[[dict[str, str]], Body]
    as_of: pd.Timestamp

    def respond(self, request: Request) -> Response:
        parameters = dict(request.query) | {"path": request.path}
        is_list = request.path.endswith("/metadata")
        body = {"symbols": ["BTC", "ETH"]} if is_list else self.body(parameters)
        return Response(
            request=request,
            status=200,
            headers={},
            body=json.dumps(body).encode(),
            as_of=self.as_of,
            source="recorded",
            synthetic=False,
            sha256="0" * 64,
        )

    def clock(self) -> pd.Timestamp:
        return self.as_of


def iso(time: Any) -> str:
    return pd.Timestamp(time).strftime("%Y-%m-%dT%H:%M:%SZ")


def _inside(parameters: dict[str, str], stamps: pd.DatetimeIndex) -> np.ndarray:
    start, end = (pd.Timestamp(parameters[name]) for name in ("start", "end"))
    return np.asarray((stamps >= start) & (stamps < end))


def _requested(parameters: dict[str, str], venues: Sequence[str]) -> list[str]:
    listed = parameters.get("exchanges")
    return [venue for venue in venues if listed is None or venue in listed.split(",")]


class Snapshots:
    """Rates of BTC and ETH on 39 venues, 2026-08-09 to 08-15, every ten to sixty minutes."""

    def __init__(self) -> None:
        recorded = json.loads(shared_path("data/funding_snapshots_2026/snapshots.json").read_text())
        self.symbols: list[str] = recorded["symbols"]
        self.venues: list[str] = recorded["venues"]
        self.times = pd.to_datetime([row[0] for row in recorded["rows"]], utc=True).as_unit("us")
        self.rates = {
            symbol: np.array([row[1 + place] for row in recorded["rows"]], dtype=np.float64)
            for place, symbol in enumerate(self.symbols)
        }
        hours = pd.read_csv(shared_path("data/funding_snapshots_2026/venues.csv"))
        self.hours = dict(zip(hours["slug"], hours["interval_hours_btc"].astype(float), strict=True))

    def history(self, parameters: dict[str, str]) -> Body:
        """Return a history, with the first snapshot of each step."""
        stamps = self.times
        resolution = parameters["resolution"]
        if resolution != "raw":
            stamps = stamps.floor(resolution)
        chosen = np.flatnonzero(_inside(parameters, stamps) & ~stamps.duplicated())
        rates = self.rates[parameters["symbol"]][chosen]
        texts = [iso(stamp) for stamp in stamps[chosen]]
        series = {}
        for venue in _requested(parameters, self.venues):
            own = zip(texts, rates[:, self.venues.index(venue)].tolist(), strict=True)
            rows = [{"timestamp": text, "y": rate} for text, rate in own if rate == rate]
            if rows:
                series[venue] = rows
        return {
            "symbol": parameters["symbol"],
            "unit": "bps_8h",
            "resolution": resolution,
            "series": series,
        }

    def snapshot(self, place: int) -> Body:
        """Return the snapshot of one time, with the venues' own rates and intervals."""
        rates: dict[str, Body] = defaultdict(dict)
        native: dict[str, Body] = defaultdict(dict)
        hours: dict[str, Body] = defaultdict(dict)
        for symbol in self.symbols:
            for venue, rate in zip(self.venues, self.rates[symbol][place].tolist(), strict=True):
                if rate == rate:
                    rates[venue][symbol] = rate
                    native[venue][symbol] = repr(rate * self.hours[venue] / 8e4)
                    hours[venue][symbol] = self.hours[venue]
        return {
            "unit": "bps_8h",
            "timestamp": iso(self.times[place]),
            "symbols": self.symbols,
            "funding_rates": rates,
            "funding_rates_raw": native,
            "funding_intervals": hours,
            "oi_rankings": {"BTC": 1, "ETH": 2},
        }


@functools.cache
def payments(kind: str) -> dict[tuple[str, str], pd.Series]:
    """Return payments by symbol and venue.

    `kind` is ``"2020-2023"``, ``"linear"`` (to mid-2024) or ``"coin"`` (coin-margined, 2023 to mid-2024).
    """
    # Binance is late by milliseconds
    first = {key: rows.set_axis(rows.index.floor("s")) for key, rows in first_set().items()}
    series = first if kind == "2020-2023" else second_set(first)
    named = {}
    for (symbol, venue), rows in series.items():
        if venue.endswith("_coin") == (kind == "coin"):
            name = venue.removesuffix("_coin")
            named[symbol, _SLUGS.get(name, name)] = rows[~rows.index.duplicated()].tz_localize("UTC")
    return named


def settlements(kind: str, parameters: dict[str, str]) -> Body:
    """Return the payments of a window."""
    series = {}
    recorded = {
        venue: rows for (symbol, venue), rows in payments(kind).items() if symbol == parameters["symbol"]
    }
    for venue in _requested(parameters, sorted(recorded)):
        own = recorded[venue]
        own = own[_inside(parameters, own.index)]
        minutes = 60 if venue == "dydx" else 480
        if own.size:
            series[venue] = [
                {"t": iso(stamp), "y": rate, "intervalMinutes": minutes} for stamp, rate in own.items()
            ]
    return {"symbol": parameters["symbol"], "unit": "bps_8h", "series": series}


@functools.cache
def _interest() -> pd.DataFrame:
    return pd.read_parquet(shared_path("data/open_interest_hyperliquid/open_interest.parquet"))


def interest_symbols() -> list[str]:
    return sorted(_interest()["coin"].unique())


def open_interest(parameters: dict[str, str]) -> Body:
    """Return hourly open interest of Hyperliquid, 2025-03 to 2026-03, or the first row of each step."""
    symbol = parameters["path"].split("/")[2]
    frame = _interest()
    frame = frame[frame["coin"] == symbol]
    stamps = pd.DatetimeIndex(frame["timestamp"]).floor(parameters["resolution"].replace("d", "D"))
    chosen = _inside(parameters, stamps) & ~stamps.duplicated()
    rows = zip(stamps[chosen], frame["oi_usd"][chosen].tolist(), strict=True)
    return {
        "symbol": symbol,
        "unit": "usd",
        "resolution": parameters["resolution"],
        "data": [
            {"timestamp": iso(stamp), "exchange": "hyperliquid", "open_interest_usd": value}
            for stamp, value in rows
        ],
    }


@functools.cache
def _marks() -> pd.DataFrame:
    frame = perpetuals()
    # The candles of binance begin at other hours
    frame = frame[frame["exchange"] != "binance"]
    return frame.assign(
        symbol=frame["pair"].str[:3],
        margin=np.where(frame["pair"].str.endswith("USDT"), "linear", "coin"),
        time=frame["time"].dt.tz_localize("UTC"),
    )


def prices(margin: str, parameters: dict[str, str]) -> Body:
    """Return prices of Bybit and OKX every 8 hours, 2023 to mid-2024."""
    frame = _marks()
    is_own = (frame["symbol"] == parameters["symbol"]) & (frame["margin"] == margin)
    frame = frame[is_own & _inside(parameters, pd.DatetimeIndex(frame["time"]))]
    series = {
        venue: [
            {"timestamp": iso(stamp), "y": price}
            for stamp, price in zip(own["time"], own["open"], strict=True)
        ]
        for venue, own in frame.drop_duplicates(["exchange", "time"]).groupby("exchange")
    }
    return {
        "symbol": parameters["symbol"],
        "unit": "usd",
        "kind": "mark",
        "resolution": parameters["resolution"],
        "series": series,
    }


@functools.cache
def chains() -> list[tuple[str, pd.Timestamp, list[Body]]]:
    """Return symbol, time and options of each recorded chain of Deribit."""
    results = []
    folder = shared_path("data/options_deribit_2026")
    for file in sorted(folder.glob("*.csv")):
        for symbol, frame in pd.read_csv(file).groupby("currency"):
            options = [
                {
                    "instrument_name": row.instrument_name,
                    "expiry": iso(row.expiry_datetime),
                    "strike": row.strike,
                    "side": row.option_type,
                    "iv": _number(row.implied_volatility),
                    "delta": _number(row.delta),
                    "vega": _number(row.vega),
                    "open_interest": _number(row.open_interest),
                    "underlying_price": _number(row.underlying),
                    "bid_coin": _number(row.bid_price),
                    "ask_coin": _number(row.ask_price),
                    "mark_coin": _number(row.mark_price),
                    "index_price_usd": _number(row.index_price),
                    "volume": _number(row.volume),
                }
                for row in frame.itertuples()
            ]
            results.append((str(symbol), pd.Timestamp(frame["timestamp"].iloc[0]), options))
    frame = pd.read_csv(shared_path("data/options_deribit_2025/deribit_btc_options.csv"))
    expiries = pd.to_datetime(frame["expiry_date"], format="%d%b%y") + pd.Timedelta(8, "h")
    options = [
        {
            "instrument_name": row.instrument_name,
            "expiry": iso(expiry),
            "strike": row.strike,
            "side": row.type,
            "iv": _number(row.mark_iv / 100.0),
            "open_interest": _number(row.open_interest),
            "underlying_price": _number(row.S0),
            "bid_coin": _number(row.bid_btc),
            "ask_coin": _number(row.ask_btc),
            "mark_coin": _number(row.market_price_btc),
            "mark_usd": _number(row.market_price_usd),
        }
        for row, expiry in zip(frame.itertuples(), expiries, strict=True)
    ]
    results.append(("BTC", pd.Timestamp("2025-12-05T01:10", tz="UTC"), options))
    return results


def _number(value: float) -> float | None:
    return None if value != value else float(value)


def liquidations() -> list[Body]:
    """Return the liquidations of Hyperliquid, May and June 2025."""
    frame = pd.read_parquet(shared_path("data/liquidations_hyperliquid/liquidations.parquet"))
    return [
        {
            "timestamp": row.timestamp.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "exchange": row.venue,
            "symbol": row.coin,
            "side": "long",
            "oid": str(number),
            "usd_value": row.size_usd,
            "price": row.price,
            "avg_price": row.price,
        }
        for number, row in enumerate(frame.itertuples())
    ]
