"""Panels by coin: 1000PEPE, kPEPE and PEPE are PEPE; contracts with contradictory prices raise an error with
both names.
"""

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
    """A table of series by symbol and venue, a value a day; NaN gives no row."""
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


def test_prices_of_scaled_contracts_are_per_coin() -> None:
    panel = dd.panel(prices(), by="coin")
    assert panel["symbol"].values.tolist() == ["BTC", "PEPE"]
    assert panel["exchange"].values.tolist() == ["binance", "hyperliquid", "okx"]
    expected = [[1.0e-5, 1.2e-5, 1.1e-5], [1.01e-5, 1.19e-5, 1.10e-5], [1.0e-5, 1.2e-5, 1.1e-5]]
    np.testing.assert_allclose(panel.sel(symbol="PEPE"), expected, rtol=1e-12)
    assert panel.sel(symbol="BTC", exchange="okx").values.tolist() == [60_000.0, 61_000.0, 62_000.0]
    assert panel.attrs["units"] == "USD"


def test_successive_contracts_join_to_one_series_with_unchanged_rates() -> None:
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


def test_contracts_with_disagreeing_prices_raise() -> None:
    other = prices(kpepe=[0.013, 0.015, 0.014])  # a quarter above the others
    message = "1000PEPE on binance and kPEPE on hyperliquid must belong to one coin: .* 1.273 times"
    with pytest.raises(ValueError, match=message):
        dd.panel(other, by="coin")
    with pytest.raises(ValueError, match=message):
        dd.panel(rates({("PEPE", "okx"): [1.0, 2.0, 3.0]}), by="coin", prices=other)
    with pytest.raises(ValueError, match="prices= is for by='coin'"):
        dd.panel(prices(), prices=other)


def test_contracts_in_a_squeeze_are_joined_with_a_notice() -> None:
    squeezed = prices(kpepe=[0.0110, 0.0132, 0.0121])
    with pytest.warns(
        dd.errors.DataNotice, match="on hyperliquid .*are more than 5 % apart and are joined: .* times"
    ):
        assert dd.panel(squeezed, by="coin").sizes["symbol"] == 2


def test_single_outlying_price_is_not_a_different_coin() -> None:
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
        (
            rates(TWO_RATES),
            r"one rate or price of a coin at 2026-06-02 00:00:00\+00:00, got 1000PEPE and PEPE",
        ),
        (
            prices().rename(columns={"price_usd": "quantity"}),
            "quantity must be a rate, a price or a value in USD for by='coin', got asset",
        ),
        (HELD, "rows repeat a"),
        (HELD.assign(instrument_name=list("abc")), "choose one instrument_name"),
        (HELD.assign(exchange=["okx", None, "okx"]), "exchange is missing in 1 rows"),
        (TABLES["oi_history"].conform(pd.concat(HELD_BY.values())), "the table mixes 1d and 1h"),
    ],
)
def test_contracts_that_cannot_be_joined_raise(data: pd.DataFrame, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dd.panel(data, by="coin")


def _daily(name: str, value: str, rows: list[tuple[str, str, str, float]], **constants: Any) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["symbol", "exchange", "time", value])
    frame["time"] = pd.to_datetime(frame["time"], utc=True)
    return TABLES[name].conform(frame.assign(**constants))


def _renamed_rates(rows: list[tuple[str, str, str, float]]) -> pd.DataFrame:
    return _daily("funding_history", "rate_bps_8h", rows, kind="sampled", resolution="1d")


@pytest.mark.parametrize(
    ("old", "new"), [("MATIC", "POL"), ("FTM", "S"), ("RNDR", "RENDER"), ("KLAY", "KAIA"), ("EOS", "A")]
)
def test_a_renamed_ticker_is_one_series_whenever_a_venue_renamed_it(old: str, new: str) -> None:
    rows = [(old, "okx", "2024-01-01", 1.0), (new, "okx", "2025-06-01", 2.0)]
    rows += [(old, "late", "2025-06-01", 3.0), (new, "late", "2026-01-01", 4.0)]
    result = dd.panel(_renamed_rates(rows), by="coin").sel(symbol=new)
    nan = float("nan")
    np.testing.assert_array_equal(result.sel(exchange="okx"), [1.0, 2.0, nan])
    np.testing.assert_array_equal(result.sel(exchange="late"), [nan, 3.0, 4.0])


def test_renamed_contract_precedes_the_old_one_on_the_same_venue() -> None:
    rows = [("MATIC", "okx", "2024-09-09", 1.0), ("MATIC", "okx", "2024-09-10", 9.0)]
    rows += [("POL", "okx", "2024-09-10", 2.0)]
    with pytest.warns(dd.errors.DataNotice, match="1 rows of MATIC are omitted"):
        result = dd.panel(_renamed_rates(rows), by="coin")
    assert result.values.tolist() == [[[1.0, 2.0]]]
    open_interest = _daily("oi_history", "oi_usd", rows, resolution="1d")
    assert dd.panel(open_interest, by="coin").values.tolist() == [[[1.0, 11.0]]]


def test_a_reused_ticker_is_two_series() -> None:
    """LIT was Litentry until 2025-02-10, and is Lighter from the end of 2025 on."""
    rows = [("LIT", "okx", "2024-01-01", 1.0), ("HEI", "okx", "2025-06-01", 2.0)]
    rows += [("LIT", "okx", "2026-02-01", 3.0), ("LUNA", "okx", "2022-05-01", 4.0)]
    rows += [("LUNA", "okx", "2022-06-01", 5.0), ("1000LUNC", "okx", "2022-06-01", 6.0)]
    result = dd.panel(_renamed_rates(rows), by="coin").isel(exchange=0)
    series = {
        symbol: result.sel(symbol=symbol).dropna("time").values.tolist() for symbol in result["symbol"].values
    }
    assert series == {"HEI": [1.0, 2.0], "LIT": [3.0], "LUNA": [5.0], "LUNC": [4.0, 6.0]}
    plain = dd.panel(_renamed_rates(rows)).sel(symbol="LIT")
    assert plain.notnull().sum() == 2


def test_every_renaming_has_two_sources_and_ordered_dates() -> None:
    for ticker in dd.tables.RENAMED_TICKERS:
        assert len(ticker.sources) >= 2
        assert pd.Timestamp(ticker.renamed) <= pd.Timestamp(ticker.reused or ticker.renamed)
