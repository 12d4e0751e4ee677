"""Panels by coin: 1000PEPE, kPEPE and PEPE are PEPE; contracts whose prices disagree are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.tables import TABLES

DAYS = pd.date_range("2026-06-01", periods=3, freq="D", tz="UTC")


def table(
    name: str, value: str, series: dict[tuple[str, str], list[float]], **constants: Any
) -> pd.DataFrame:
    """A table of series by symbol and venue, a value a day; NaN is no row."""
    rows = [
        {"symbol": symbol, "exchange": venue, "time": day, value: number, **constants}
        for (symbol, venue), numbers in series.items()
        for day, number in zip(DAYS, numbers, strict=True)
        if number == number
    ]
    return TABLES[name].conform(pd.DataFrame(rows))


def prices(**of_kpepe: list[float]) -> pd.DataFrame:
    series = {
        ("1000PEPE", "binance"): [0.010, 0.012, 0.011],
        ("PEPE", "okx"): [0.000010, 0.000012, 0.000011],
        ("kPEPE", "hyperliquid"): of_kpepe.get("kpepe", [0.0101, 0.0119, 0.0110]),
        ("BTC", "okx"): [60_000.0, 61_000.0, 62_000.0],
    }
    return table("prices_history", "price_usd", series, kind="mark", resolution="1d")


def rates(series: dict[tuple[str, str], list[float]]) -> pd.DataFrame:
    return table("funding_history", "rate_bps_8h", series, kind="sampled", resolution="1d")


def test_prices_are_those_of_one_coin() -> None:
    panel = dd.panel(prices(), by="coin")
    assert panel["symbol"].values.tolist() == ["BTC", "PEPE"]
    assert panel["exchange"].values.tolist() == ["binance", "hyperliquid", "okx"]
    expected = [[1.0e-5, 1.2e-5, 1.1e-5], [1.01e-5, 1.19e-5, 1.10e-5], [1.0e-5, 1.2e-5, 1.1e-5]]
    np.testing.assert_allclose(panel.sel(symbol="PEPE"), expected, rtol=1e-12)
    assert panel.sel(symbol="BTC", exchange="okx").values.tolist() == [60_000.0, 61_000.0, 62_000.0]
    assert panel.attrs["units"] == "USD"


def test_rates_stay_as_they_are_and_contracts_that_follow_each_other_are_one_series() -> None:
    nan = float("nan")
    before_and_after = {("PEPE", "okx"): [1.0, nan, nan], ("1000PEPE", "okx"): [nan, 2.0, 3.0]}
    panel = dd.panel(rates({**before_and_after, ("kPEPE", "hyperliquid"): [4.0, 5.0, 6.0]}), by="coin")
    assert panel.dims == ("symbol", "exchange", "time")
    assert panel["symbol"].values.tolist() == ["PEPE"]
    assert panel.values.tolist() == [[[4.0, 5.0, 6.0], [1.0, 2.0, 3.0]]]
    assert panel.attrs["kind"] == "sampled"


def test_values_of_two_contracts_of_a_venue_are_added_up() -> None:
    nan = float("nan")
    series = {("PEPE", "okx"): [1.0, 2.0, nan], ("1000PEPE", "okx"): [10.0, nan, 30.0]}
    panel = dd.panel(table("oi_history", "oi_usd", series, resolution="1d"), by="coin")
    assert panel.values.tolist() == [[[11.0, 2.0, 30.0]]]


def test_contracts_whose_prices_disagree_are_refused_by_name() -> None:
    other = prices(kpepe=[0.013, 0.015, 0.014])  # a quarter above the others
    message = "1000PEPE on binance and kPEPE on hyperliquid are not of one coin: .* 1.273 times"
    with pytest.raises(ValueError, match=message):
        dd.panel(other, by="coin")
    with pytest.raises(ValueError, match=message):
        dd.panel(rates({("PEPE", "okx"): [1.0, 2.0, 3.0]}), by="coin", prices=other)
    with pytest.raises(ValueError, match="prices= is for by='coin'"):
        dd.panel(prices(), prices=other)


def test_one_instant_that_is_off_is_no_other_coin() -> None:
    assert dd.panel(prices(kpepe=[0.0101, 0.0119, 0.5]), by="coin").sizes["symbol"] == 2


TWO_RATES = {("PEPE", "okx"): [1.0, 2.0, 3.0], ("1000PEPE", "okx"): [float("nan"), 2.0, 3.0]}
HELD = pd.DataFrame(
    {"symbol": ["PEPE", "PEPE", "1000PEPE"], "exchange": "okx", "oi_usd": 1.0, "time": DAYS[0]}
)
HELD_BY = {
    step: table("oi_history", "oi_usd", {(name, "okx"): [1.0, 1.0, 1.0]}, resolution=step)
    for step, name in (("1d", "1000PEPE"), ("1h", "PEPE"))
}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (rates(TWO_RATES), r"okx has 1000PEPE and PEPE at 2026-06-02 00:00:00\+00:00: two rates"),
        (prices().rename(columns={"price_usd": "quantity"}), "quantity is in asset: by='coin' joins rates"),
        (HELD, "rows repeat a"),
        (HELD.assign(instrument_name=list("abc")), "choose one instrument_name"),
        (HELD.assign(exchange=["okx", None, "okx"]), "exchange is missing in 1 rows"),
        (TABLES["oi_history"].conform(pd.concat(HELD_BY.values())), "the table mixes 1d and 1h"),
    ],
)
def test_what_cannot_be_joined_is_refused_and_neither_added_up_nor_dropped(
    data: pd.DataFrame, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        dd.panel(data, by="coin")
