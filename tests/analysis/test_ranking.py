import numpy as np
import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from derivdata.analysis import funding
from tests.analysis.funding_made import market, noisy, series
from tests.support.records import attrs_of

NAN = float("nan")


def test_percentiles_equal_hand_calculation() -> None:
    """5 above −1, 0, 1; then 1 among 0, 1, 5 with half of its equal; 9 has two of three before it."""
    values = [-1.0, 0.0, 1.0, 5.0, 1.0, NAN, 9.0]
    result = dd.analysis.percentile(series(values), rows=3)
    np.testing.assert_allclose(result, [NAN, NAN, 1.0, 1.0, 0.5, NAN, 1.0])
    assert attrs_of(result) == {"units": "1"}
    strict = dd.analysis.percentile(series(values), "24h", min_rows=3)
    np.testing.assert_allclose(strict, [NAN, NAN, NAN, 1.0, 0.5, NAN, NAN])


def test_percentiles_use_previous_values_only() -> None:
    panel = noisy(symbols=2, venues=3, rows=90, gaps=0.2, seed=3).round(1)
    result = dd.analysis.percentile(panel.transpose("time", ...), rows=20, min_rows=5)
    assert result.dims == ("time", "symbol", "exchange")
    for place in np.ndindex(panel.shape):
        past = panel.values[place[:2]][max(0, place[2] - 20) : place[2]]
        past, value = past[np.isfinite(past)], panel.values[place]
        share = ((past < value).sum() + 0.5 * (past == value).sum()) / max(past.size, 1)
        expected = share if past.size >= 5 and np.isfinite(value) else NAN
        np.testing.assert_allclose(result.values[place[2], *place[:2]], expected, rtol=1e-12)


def test_windows_hold_settlements_of_venues_that_stamp_late() -> None:
    panel = noisy(symbols=1, venues=2, rows=40, gaps=0.0, seed=3)
    late = panel.isel(exchange=[1]).assign_coords(time=panel["time"] + np.timedelta64(5, "ms"))
    both = xr.concat([panel.isel(exchange=[0]), late], "exchange", join="outer")
    for score in (dd.analysis.percentile, funding.zscore):
        xr.testing.assert_equal(score(both, "5d"), score(panel, "5d"))


def test_a_panel_without_series_or_rows_has_no_percentiles() -> None:
    panel = noisy(symbols=2, venues=3, rows=9, gaps=0.0, seed=3)
    for part in ({"exchange": slice(0)}, {"time": slice(0)}):
        empty = panel.isel(part)
        assert dd.analysis.percentile(empty, rows=3).sizes == empty.sizes


def test_ranks_of_venues_and_of_symbols() -> None:
    panel = market([[[3.0], [1.0], [3.0], [NAN]], [[2.0], [5.0], [NAN], [NAN]]])
    np.testing.assert_array_equal(dd.analysis.rank(panel)[0, :, 0], [1.5, 3.0, 1.5, NAN])
    np.testing.assert_array_equal(
        dd.analysis.rank(panel, dim="symbol")[..., 0], [[1, 2, 1, NAN], [2, 1, NAN, NAN]]
    )
    late = xr.concat(
        [
            panel.isel(exchange=[0]),
            panel.isel(exchange=[1]).assign_coords(time=panel["time"] + np.timedelta64(5, "ms")),
        ],
        "exchange",
        join="outer",
    )
    assert dd.analysis.rank(late).values.tolist() == [[[1.0], [2.0]], [[2.0], [1.0]]]
    with pytest.raises(ValueError, match="among later ones"):
        dd.analysis.rank(panel, dim="time")


@pytest.fixture(scope="module")
def two_symbols() -> xr.DataArray:
    """Rates of four venues, of which the last one ends early for the second symbol."""
    panel = noisy(symbols=2, venues=4, rows=300, gaps=0.0, seed=5)
    panel[1, 3, -30:] = NAN
    return panel


def test_forecast_table_is_the_annualised_forecast(two_symbols: xr.DataArray) -> None:
    forecast = funding.forecast_carry(two_symbols, hold="7d", fee_bps=1.0)
    table = dd.analysis.carry_table(forecast)
    best = table.iloc[0]
    is_best = (forecast["long"] == best["long"]) & (forecast["short"] == best["short"])
    pair = forecast.sel(symbol=best["symbol"]).isel(pair=int(np.flatnonzero(is_best)[0]))
    for name in ("net", "net_low", "net_high"):
        assert best[f"{name}_apr"] == pytest.approx(pair[f"{name}_bps"].item() / 1e4 * 8760 / 168, rel=1e-12)
    assert best["chance"] == pair["probability_net_positive"].item()
    pd.testing.assert_frame_equal(dd.analysis.carry_table(pair), table.iloc[:1])


def test_forecast_table_has_pairs_without_a_forecast_last(two_symbols: xr.DataArray) -> None:
    """Each symbol has 12 pairs; six of the second symbol have the venue that ended."""
    forecast = funding.forecast_carry(two_symbols, hold="7d", fee_bps=1.0)
    table = dd.analysis.carry_table(forecast)
    assert table["net_apr"].dropna().is_monotonic_decreasing
    assert table["net_apr"].isna().tolist() == [False] * 18 + [True] * 6
    assert set(table["status"][18:]) == {"gap"}


def test_forecast_table_needs_pairs_and_one_time(two_symbols: xr.DataArray) -> None:
    forecast = funding.forecast_carry(two_symbols, hold="7d", fee_bps=1.0)
    for leg in ("long", "short"):
        with pytest.raises(ValueError, match=f"forecast must have the column '{leg}'"):
            dd.analysis.carry_table(forecast.drop_indexes(["long", "short"]).drop_vars(leg))
    with pytest.raises(ValueError, match="forecast must have one timestamp"):
        dd.analysis.carry_table(funding.forecast_history(two_symbols, hold="7d", fee_bps=1.0))


def _three_schedules() -> xr.DataArray:
    """Return 49 hours of a venue that pays every hour and two that pay every eight, four hours apart."""
    times = pd.date_range("2025-01-01", periods=49, freq="1h")
    values = np.full((1, 3, 49), NAN)
    values[0, 0, ::8] = 1.0
    values[0, 1, 4::8] = -1.0
    values[0, 2] = 2.0
    labels = {"symbol": ["BTC"], "exchange": ["binance", "bitmex", "hyperliquid"], "time": times}
    attrs = {"units": "bps/8h", "kind": "settled"}
    hours = ("exchange", [8.0, 8.0, 1.0])
    panel = xr.DataArray(values, labels, tuple(labels), "rate_bps_8h", attrs)
    return panel.assign_coords(interval_hours=hours)


def test_venues_that_pay_at_different_hours_are_compared_at_each_of_them() -> None:
    panel = _three_schedules()
    later = panel["time"][4:]
    spreads = dd.analysis.funding.dispersion(panel).sel(time=later)
    assert (spreads["median_bps_8h"] == 1.0).all()
    assert (spreads["range_bps_8h"] == 3.0).all()
    assert (spreads["venues"] == 3).all()
    open_interest = (panel * 0.0).fillna(0.0) + xr.DataArray([1e6, 1e6, 2e6], dims="exchange")
    open_interest = open_interest.drop_vars("interval_hours").rename("oi_usd").assign_attrs(units="USD")
    weighted = dd.analysis.funding.oi_weighted(panel, open_interest).sel(time=later)
    np.testing.assert_allclose(weighted["rate_bps_8h"], (1.0 - 1.0 + 2.0 * 2.0) / 4.0)
    assert (weighted["covered"] == 1.0).all()
    ranks = dd.analysis.rank(panel).sel(time=later)
    assert (ranks == xr.DataArray([2.0, 3.0, 1.0], dims="exchange")).all()
    share = dd.analysis.percentile(panel, rows=8).isel(time=slice(20, None))
    assert (share == 0.5).all()  # equal values count half, also between two payments
    assert (dd.analysis.funding.dispersion(panel)["venues"].values[0, :4] == 2).all()


def test_overdue_payment_is_not_carried_forward() -> None:
    panel = _three_schedules()
    panel[0, 0, 24:] = NAN
    ranks = dd.analysis.rank(panel)
    assert ranks.values[0, :, 23].tolist() == [2.0, 3.0, 1.0]
    np.testing.assert_array_equal(ranks.values[0, :, 24], [NAN, 2.0, 1.0])


def _random_schedules(seed: int) -> tuple[xr.DataArray, xr.DataArray]:
    """Return settlements of four venues on an hourly grid, and open interest.

    Intervals change, payments are missing, and sums after a halt pay for several
    hours.
    """
    rng = np.random.default_rng(seed)
    rows = 120
    rates = np.full((1, 4, rows), NAN)
    hours = np.full((4, rows), NAN)
    for venue in range(4):
        row = int(rng.integers(0, 8))
        interval = int(rng.choice([1, 2, 4, 8]))
        while row < rows:
            if rng.random() < 0.1:
                interval = int(rng.choice([1, 2, 4, 8]))
            if rng.random() < 0.8:
                rates[0, venue, row] = np.round(rng.normal(), 1)
                hours[venue, row] = interval * int(rng.choice([1, 1, 1, 3]))
            row += interval
    times = pd.date_range("2025-01-01", periods=rows, freq="1h").as_unit("us")
    labels = {"symbol": ["BTC"], "exchange": ["a", "b", "c", "d"], "time": times}
    attrs = {"units": "bps/8h", "kind": "settled"}
    panel = xr.DataArray(rates, labels, tuple(labels), "rate_bps_8h", attrs)
    sizes = np.round(rng.lognormal(14.0, 1.0, rates.shape))
    sizes[rng.random(sizes.shape) < 0.1] = NAN
    oi = xr.DataArray(sizes, labels, tuple(labels), "oi_usd", {"units": "USD"})
    return panel.assign_coords(interval_hours=(("exchange", "time"), hours)), oi


def _carried_slowly(panel: xr.DataArray) -> list[list[float]]:
    """Return each venue's last payment of which the interval is not over, hour by hour."""
    interval = panel["interval_hours"].transpose("exchange", "time").to_numpy()
    carried = []
    for rates, hours in zip(panel.values[0], interval, strict=True):
        row = []
        for now in range(rates.size):
            paid = [place for place in range(now + 1) if np.isfinite(rates[place])]
            is_held = bool(paid) and (now - paid[-1] < hours[paid[-1]] or paid[-1] == now)
            row.append(float(rates[paid[-1]]) if is_held else NAN)
        carried.append(row)
    return carried


@pytest.mark.parametrize("seed", range(6))
def test_figures_of_settlements_equal_a_loop_over_hours_and_venues(seed: int) -> None:
    panel, oi = _random_schedules(seed)
    carried = _carried_slowly(panel)
    spreads = funding.dispersion(panel).isel(symbol=0)
    weighted = funding.oi_weighted(panel, oi, min_cover=0.3).isel(symbol=0)
    ranks = dd.analysis.rank(panel).isel(symbol=0)
    shares = dd.analysis.percentile(panel, rows=24, min_rows=6).isel(symbol=0)
    compared = 0
    for hour in range(panel.sizes["time"]):
        rates = {venue: carried[venue][hour] for venue in range(4) if np.isfinite(carried[venue][hour])}
        at = spreads.isel(time=hour)
        assert at["venues"] == len(rates)
        expected = {"median_bps_8h": np.median([*rates.values()]) if rates else NAN}
        if len(rates) > 1:
            values = sorted(rates.values())
            mean = sum(values) / len(values)
            expected["range_bps_8h"] = values[-1] - values[0]
            squares = sum((value - mean) ** 2 for value in values)
            expected["std_bps_8h"] = (squares / (len(values) - 1)) ** 0.5
        for name, value in expected.items():
            np.testing.assert_allclose(at[name], value, rtol=1e-12, atol=1e-12)

        sizes = oi.values[0, :, hour]
        known = {venue: sizes[venue] for venue in range(4) if np.isfinite(sizes[venue])}
        rated = {venue: size for venue, size in known.items() if venue in rates}
        covered = sum(rated.values()) / sum(known.values()) if known else NAN
        mean = NAN
        if rated and covered >= 0.3:
            mean = sum(rates[venue] * size for venue, size in rated.items()) / sum(rated.values())
        np.testing.assert_allclose(weighted["covered"][hour], covered, rtol=1e-12)
        np.testing.assert_allclose(weighted["rate_bps_8h"][hour], mean, rtol=1e-12)

        for venue in range(4):
            rank, share = NAN, NAN
            if venue in rates:
                higher = sum(rate > rates[venue] for rate in rates.values())
                equal = sum(rate == rates[venue] for rate in rates.values())
                rank = higher + (equal + 1) / 2
                before = [value for value in carried[venue][max(hour - 24, 0) : hour] if np.isfinite(value)]
                if len(before) >= 6:
                    below = sum(value < rates[venue] for value in before)
                    ties = sum(value == rates[venue] for value in before)
                    share = (below + ties / 2) / len(before)
                    compared += 1
            np.testing.assert_allclose(ranks[venue, hour], rank)
            np.testing.assert_allclose(shares[venue, hour], share, rtol=1e-12)
    assert compared > 100
