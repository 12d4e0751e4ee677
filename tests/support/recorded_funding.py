"""Recorded settlements of BTC and ETH, 2020 to mid-2024, as one panel of eleven venues."""

from __future__ import annotations

import functools

import pandas as pd
import xarray as xr

from tests.support.shared import shared_path

PERIODS = {
    "2020–2021": ("2020-01-01", "2022-01-01"),
    "2022": ("2022-01-01", "2023-01-01"),
    "2023 to mid-2024": ("2023-01-01", "2024-07-02"),
}
"""Fixed before the data was examined; every result is computed for each, and pooled over the three."""
_MOSCOW = {"binance", "bybit", "htx", "mexc", "kucoin"}  # stamps of these files are UTC+3, of the others UTC
_HOURLY = {"dydx"}


def recorded_funding() -> xr.DataArray:
    """Return settlements (symbol, exchange, time) [bps/8h] with the interval of each venue in hours.

    In the second set ``binance_coin`` and similar names are coin-margined perpetuals; binance and bybit
    continue where the first set ends (over 2023 the two agree to the last digit). Skips if the data is
    absent.
    """
    first = {key: rows.set_axis(rows.index.floor("s")) for key, rows in first_set().items()}
    series = first | second_set(first)
    frame = pd.DataFrame(series)
    symbols, venues = (sorted(set(frame.columns.get_level_values(level))) for level in (0, 1))
    # htx settled once more than its schedule that day, and for which hours is not known.
    frame.loc["2021-10-28T03:00", [(symbol, "htx") for symbol in symbols]] = float("nan")
    hours = [1.0 if venue in _HOURLY else 8.0 for venue in venues]
    return xr.DataArray(
        [[frame[symbol, venue].to_numpy() for venue in venues] for symbol in symbols],
        dims=("symbol", "exchange", "time"),
        coords={
            "symbol": symbols,
            "exchange": venues,
            "time": frame.index.to_numpy(),
            "interval_hours": ("exchange", hours),
        },
        attrs={"units": "bps/8h", "kind": "settled"},
    )


@functools.cache
def first_set() -> dict[tuple[str, str], pd.Series]:
    """Return settlements of 2020 to 2023 [bps/8h] by symbol and venue, each stamped as it was, in UTC."""
    results = {}
    for file in sorted(shared_path("data/funding_2020_2023").glob("*.csv")):
        symbol, venue = file.name.split("-USDT_")[0], file.name.split("_")[1]
        frame = pd.read_csv(file)
        times = pd.to_datetime(frame["Date"], format="ISO8601").astype("datetime64[us]")
        times = times - pd.Timedelta(hours=3 if venue in _MOSCOW else 0)
        rates = frame["Funding Rate"].to_numpy() * 1e4 * (8.0 if venue in _HOURLY else 1.0)
        results[symbol, venue] = pd.Series(rates, times.to_numpy())  # binance is late by milliseconds
    return results


def perpetuals() -> pd.DataFrame:
    """Return candles of 8 hours and payments of perpetuals, 2023 to mid-2024, with times in UTC."""
    frame = pd.read_csv(shared_path("data/funding_basis_2023_2024/all_exchanges.csv"))
    frame = frame[frame["contract"] == "perpetual"]
    local = pd.to_datetime(frame["time"]).dt.tz_localize("Europe/London", ambiguous=True)
    return frame.assign(time=local.dt.tz_convert("UTC").dt.tz_localize(None).astype("datetime64[us]"))


def second_set(first: dict[tuple[str, str], pd.Series]) -> dict[tuple[str, str], pd.Series]:
    """Return payments of 2023 to mid-2024 by symbol and venue, joined to those of the first set."""
    frame = perpetuals().dropna(subset="funding rate")
    results = {}
    for (venue, pair), rows in frame.groupby(["exchange", "pair"]):
        key = str(pair)[:3], str(venue) if str(pair).endswith("USDT") else f"{venue}_coin"
        results[key] = pd.Series(rows["funding rate"].to_numpy() * 1e4, rows["time"])
    joined = {key: pd.concat([first[key], results[key]]) for key in results.keys() & first.keys()}
    return results | {key: rows[~rows.index.duplicated()] for key, rows in joined.items()}


def recorded_marks() -> xr.DataArray:
    """Return prices [USD] of four perpetuals of bybit and okx every 8 hours, BTC and ETH, 2023 to mid-2024.

    The candles of binance begin at other hours than the other two.
    """
    frame = perpetuals().query("exchange != 'binance'")
    linear = frame["pair"].str.endswith("USDT")
    venue = frame["exchange"].where(linear, frame["exchange"] + "_coin")
    frame = frame.assign(symbol=frame["pair"].str[:3], exchange=venue)
    rows = frame.drop_duplicates(["symbol", "exchange", "time"]).set_index(["symbol", "exchange", "time"])
    marks: xr.DataArray = rows["open"].to_xarray().assign_attrs(units="USD")
    return marks
