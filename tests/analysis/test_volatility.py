import math

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import volatility

METHODS = ("close_to_close", "parkinson", "garman_klass", "rogers_satchell", "yang_zhang")
NAMES = ("open_usd", "high_usd", "low_usd", "close_usd")


def dataset(rows: list[tuple[float, float, float, float]], hours: float = 24.0) -> xr.Dataset:
    time = np.datetime64("2026-01-01", "us") + np.arange(len(rows)) * np.timedelta64(round(hours * 60), "m")
    columns = np.array(rows, dtype=float).T
    return xr.Dataset({name: ("time", c) for name, c in zip(NAMES, columns, strict=True)}, {"time": time})


def walk(days: int, steps: int, sigma: float, seed: int = 7, drift: float = 0.0) -> xr.DataArray:
    """A geometric random walk of that many steps a day, from 100; its last price begins one more day."""
    rng = np.random.default_rng(seed)
    dt = 1.0 / (365.0 * steps)
    moves = drift * dt + sigma * math.sqrt(dt) * rng.standard_normal(days * steps)
    logs = np.concatenate([[0.0], np.cumsum(moves)])
    time = np.datetime64("2026-01-01", "us") + np.arange(len(logs)) * np.timedelta64(
        86_400_000_000 // steps, "us"
    )
    return xr.DataArray(
        100.0 * np.exp(logs), dims="time", coords={"time": time}, name="price_usd", attrs={"units": "USD"}
    )


def slow(rows: np.ndarray, method: str) -> float:
    """The textbook sums over one window of rows (o, h, l, c); the row before it comes first."""
    before, rows = rows[0], rows[1:]
    n = len(rows)
    o, c = [math.log(r[0]) for r in rows], [math.log(r[3]) for r in rows]
    h, low = [math.log(r[1]) for r in rows], [math.log(r[2]) for r in rows]
    last = [math.log(before[3]), *c[:-1]]
    rs = sum((h[i] - c[i]) * (h[i] - o[i]) + (low[i] - c[i]) * (low[i] - o[i]) for i in range(n)) / n

    def spread(x: list[float]) -> float:
        mean = sum(x) / n
        return sum((v - mean) ** 2 for v in x) / (n - 1)

    if method == "close_to_close":
        return math.sqrt(365 * spread([c[i] - last[i] for i in range(n)]))
    if method == "parkinson":
        return math.sqrt(365 * sum((h[i] - low[i]) ** 2 for i in range(n)) / (4 * n * math.log(2)))
    if method == "garman_klass":
        total = sum(0.5 * (h[i] - low[i]) ** 2 - (2 * math.log(2) - 1) * (c[i] - o[i]) ** 2 for i in range(n))
        return math.sqrt(365 * total / n)
    if method == "rogers_satchell":
        return math.sqrt(365 * rs)
    k = 0.34 / (1.34 + (n + 1) / (n - 1))
    gaps, inside = spread([o[i] - last[i] for i in range(n)]), spread([c[i] - o[i] for i in range(n)])
    return math.sqrt(365 * (gaps + k * inside + (1 - k) * rs))


@pytest.mark.parametrize("method", METHODS)
def test_realised_volatility_equals_textbook_sum_in_every_window(method: str) -> None:
    bars = volatility.bars(walk(12, 24, 0.6))
    result = volatility.realised(bars, "5d", method=method)  # type: ignore[arg-type]
    assert result.attrs["units"] == "1/√year"
    rows = np.stack([bars[name].values for name in NAMES], axis=-1)
    for end in range(5, 12):
        assert result[end] == pytest.approx(slow(rows[end - 5 : end + 1], method), rel=1e-12)
    assert np.isnan(result[:4]).all()


def test_a_step_of_another_length_is_annualised_by_it() -> None:
    daily = dataset([(1.0, 1.1, 0.9, 1.0)] * 3)
    hourly = dataset([(1.0, 1.1, 0.9, 1.0)] * 3, hours=1.0)
    one, other = (
        float(volatility.realised(d, window, method="parkinson")[-1])
        for d, window in ((daily, "2d"), (hourly, "2h"))
    )
    assert other == pytest.approx(one * math.sqrt(24), rel=1e-12)


@pytest.mark.parametrize(("middle", "share"), [(-0.02, 0.0), (-0.05, 1 - np.pi / 2 * 5e-4 / 9e-4)])
def test_bipower_variation_equals_hand_calculation(middle: float, share: float) -> None:
    """Returns 1 %, −2 %, 1 %: products 2e-4 and 2e-4, π/2 × 2e-4 a return: no part jumps, not a negative one.

    With −5 % products are 5e-4, and of the mean square of 9e-4 what π/2 × 5e-4 leaves is jumps.
    """
    price = walk(3, 1, 0.1).copy(data=100.0 * np.exp(np.cumsum([0.0, 0.01, middle, 0.01])))
    result = volatility.bipower(price, "3d").isel(time=-1)
    squares, products = (2e-4 + middle**2) / 3, math.pi / 2 * -0.01 * middle
    assert float(result["volatility"]) == pytest.approx(math.sqrt(squares * 365), rel=1e-9)
    assert float(result["continuous"]) == pytest.approx(math.sqrt(products * 365), rel=1e-9)
    assert float(result["jump_share"]) == pytest.approx(share, abs=1e-12)


def test_price_at_the_start_of_a_bar_belongs_to_it() -> None:
    """The second day opens at 11, the last price of the first day, and 13 of 00:00 is its high."""
    time = np.datetime64("2026-01-01T00:00", "us") + np.arange(4) * np.timedelta64(12, "h")
    price = xr.DataArray([10.0, 11.0, 13.0, 12.0], {"time": time}, ("time",), attrs={"units": "USD"})
    bars = volatility.bars(price, step="1d")
    assert [bars[name].values.tolist() for name in NAMES] == [[10, 11], [11, 13], [10, 11], [11, 12]]


def test_bars_outside_the_prices_are_nan() -> None:
    """Half-hourly, bars of two hours: from 11:00 to 16:30 whole is 12:00 to 16:00, and 16:00 is not over.

    The first lacks a price within a bar, which leaves the rest of it. The second begins at 12:00 and ends at
    17:30, and lacks a whole bar; the third has a single price, which spans none.
    """
    time = np.datetime64("2026-01-01T11:00", "us") + np.arange(14) * np.timedelta64(30, "m")
    steps = np.arange(14.0)
    rows = [
        np.where((steps <= 11) & (steps != 3), 10.0 + steps, np.nan),
        np.where((steps >= 2) & ((steps < 6) | (steps > 9)), 30.0 - steps, np.nan),
        np.where(steps == 2, 5.0, np.nan),
    ]
    price = xr.DataArray(rows, {"time": time}, ("exchange", "time"), attrs={"units": "USD"})
    bars = volatility.bars(price, step="2h")
    assert [str(t)[11:16] for t in bars["time"].values] == ["10:00", "12:00", "14:00", "16:00"]
    assert bars["count"].values.tolist() == [[2, 3, 4, 2], [0, 4, 0, 4], [0, 1, 0, 0]]
    values = np.stack([bars[name].values for name in NAMES], axis=-1)
    assert values[0, 1].tolist() == [11.0, 15.0, 11.0, 15.0]  # opens at 11:30's price
    assert values[0, 2].tolist() == [15.0, 19.0, 15.0, 19.0]
    assert values[1, 3].tolist() == [20.0, 20.0, 17.0, 17.0]  # no close before it
    known = ~np.isnan(values).any(axis=-1)
    assert known.tolist() == [[False, True, True, False], [False, True, False, True], [False] * 4]
    assert (np.isnan(values).all(axis=-1) == ~known).all()
    assert np.isnan(volatility.realised(bars, "4h")[1, -1])  # a bar is missing


def test_unfinished_day_and_later_prices_do_not_change_results() -> None:
    """In a walk at 60 % the last day has just started; its small range would lower the window's result."""
    price = walk(40, 288, 0.6)
    whole, begun = (volatility.realised(volatility.bars(p), "20d") for p in (price[: 40 * 288], price[:-200]))
    assert np.isnan(begun[-1])
    assert float(begun[-2]) == float(whole[-2])
    bars = volatility.bars(walk(30, 24, 0.5))
    early = volatility.realised(bars.isel(time=slice(0, 20)), "5d")
    np.testing.assert_array_equal(volatility.realised(bars, "5d")[:20], early)


def test_a_cone_is_the_quantiles_of_its_windows() -> None:
    bars = volatility.bars(walk(60, 24, 0.5))
    cone = volatility.cone(bars, ["5d", "20d", "90d"], quantiles=[0.0, 0.5, 1.0], method="parkinson")
    assert np.isnan(cone["volatility"].sel(window=90)).all(), "history is too short: NaN and no warning"
    five = volatility.realised(bars, "5d", method="parkinson").values
    five = five[~np.isnan(five)]
    result = cone["volatility"].sel(window=5)
    assert result.values == pytest.approx([five.min(), np.median(five), five.max()])
    assert float(cone["latest"].sel(window=5)) == five[-1]
    assert cone["count"].values.tolist() == [56, 41, 0]
    width = cone["volatility"].sel(quantile=1.0) - cone["volatility"].sel(quantile=0.0)
    assert float(width.sel(window=20)) < float(width.sel(window=5))


def _slow_har(variance: np.ndarray, ahead: int, at: int) -> float:
    """Corsi's forecast at one day, by a loop over the windows that were over then."""

    def row(day: int) -> list[float]:
        return [1.0, *(np.sqrt(variance[day - n + 1 : day + 1].mean()) for n in (1, 7, 30))]

    days = range(29, at - ahead + 1)
    targets = [np.sqrt(variance[day + 1 : day + ahead + 1].mean()) for day in days]
    weights = np.linalg.lstsq(np.array([row(day) for day in days]), np.array(targets), rcond=None)[0]
    return float(np.clip(row(at) @ weights, min(targets), max(targets)))


@pytest.mark.parametrize(("step", "window"), [("1D", 2), ("1D", 20), ("12h", 5)])
def test_forecast_of_a_cone_equals_a_slow_regression(step: str, window: int) -> None:
    """Bars that only rise by r have Garman and Klass's variance r² (3/2 − 2 ln 2)."""
    rng = np.random.default_rng(3)
    level = np.zeros(260)
    for day in range(1, level.size):
        level[day] = 0.9 * level[day - 1] + 0.3 * rng.standard_normal()
    per_day = int(pd.Timedelta("1D") / pd.Timedelta(step))
    rise = np.repeat(0.03 * np.exp(level), per_day) / np.sqrt(per_day)
    close = 100.0 * np.exp(np.cumsum(rise) % 3.0)
    opened = close / np.exp(rise)
    times = pd.date_range("2025-01-01", periods=rise.size, freq=step)
    gap = np.log(opened[1:] / close[:-1]) ** 2
    columns = {"open_usd": opened, "high_usd": close, "low_usd": opened, "close_usd": close}
    made = xr.Dataset({name: ("time", part) for name, part in columns.items()}, {"time": times.as_unit("us")})
    result = volatility.cone(made, [f"{window}d"])
    daily = np.append(np.nan, gap) + rise**2 * (1.5 - 2 * np.log(2))
    daily = daily.reshape(-1, per_day).sum(axis=1)[1:] * 365
    last = daily.size - 1
    assert float(result["forecast"][0]) == pytest.approx(_slow_har(daily, window, last), rel=1e-9)
    days = range(29 + 99 + window, last - window + 1)
    misses = [_slow_har(daily, window, d) - np.sqrt(daily[d + 1 : d + window + 1].mean()) for d in days]
    assert float(result["forecast_error"][0]) == pytest.approx(np.sqrt(np.mean(np.square(misses))), rel=1e-9)
    lazy = volatility.cone(made.chunk(time=50), [f"{window}d"])
    xr.testing.assert_allclose(lazy["forecast"][0].compute(), result["forecast"][0])
    if per_day == 2:
        assert np.isnan(volatility.cone(made, ["36h"])["forecast"][0])
    assert np.isnan(volatility.cone(made.isel(time=slice(0, 100 * per_day)), [f"{window}d"])["forecast"][0])


def test_implied_is_compared_with_the_following_realised_window() -> None:
    time = np.datetime64("2026-01-01", "us") + np.arange(4) * np.timedelta64(1, "D")
    implied = xr.DataArray([0.5, 0.6, 0.7, 0.8], dims="time", coords={"time": time})
    ended = xr.DataArray([0.4, 0.3, 0.2, 0.1], dims="time", coords={"time": time})
    ahead = volatility.implied_minus_realised(implied, ended, window="1d")
    np.testing.assert_allclose(ahead["volatility"], [0.2, 0.4, 0.6, np.nan])
    np.testing.assert_allclose(ahead["variance"], [0.25 - 0.09, 0.36 - 0.04, 0.49 - 0.01, np.nan])
    behind = volatility.implied_minus_realised(implied, ended, window="1d", ahead=False)
    np.testing.assert_allclose(behind["volatility"], [0.1, 0.3, 0.5, 0.7])


def test_invalid_arguments_are_rejected() -> None:
    bars = volatility.bars(walk(5, 24, 0.5))
    with pytest.raises(
        ValueError, match="window must be a whole number of at least two steps of 24 h, got '1d'"
    ):
        volatility.realised(bars, "1d")
    with pytest.raises(ValueError, match=r"steps of 24 h, got '60h' \(2\.5 steps\)"):
        volatility.realised(bars, "60h")
    with pytest.raises(ValueError, match="regular steps"):
        volatility.realised(bars.isel(time=[0, 1, 3]), "2d")
    with pytest.raises(ValueError, match="step must be a length of time above 0, got '0h'"):
        volatility.bars(walk(5, 24, 0.5), step="0h")
    with pytest.raises(ValueError, match=r"quantiles must be fractions from 0 to 1, got \[5\.0\]"):
        volatility.cone(bars, ["2d"], quantiles=[5.0])


def test_realised_volatility_is_compared_from_the_end_of_its_window() -> None:
    """A window of two days that ends on the 4th is the outcome of a volatility sold on the 2nd."""
    bars = volatility.bars(walk(8, 24, 0.5))
    result = volatility.realised(bars, "2d", method="parkinson")
    day = np.timedelta64(1, "D")
    assert (result["window_end"] == result["time"] + day).all()
    shifted = result.drop_vars("window_end").assign_coords(time=result["time"].to_numpy() + day)
    sold = xr.full_like(shifted, 0.5).drop_vars("time").assign_coords(time=result["time"].to_numpy())
    by_hand = volatility.implied_minus_realised(sold, shifted, window="2d")
    edge = volatility.implied_minus_realised(sold, result, window="2d")
    xr.testing.assert_identical(edge.drop_attrs(), by_hand.drop_attrs())
    assert edge["volatility"][1].item() == pytest.approx(0.5 - result[2].item(), rel=1e-14)
    # A user who shifts the labels gets the same.
    again = result.assign_coords(time=result["time"].to_numpy() + day)
    moved = volatility.implied_minus_realised(sold, again, window="2d")
    xr.testing.assert_identical(moved.drop_attrs(), by_hand.drop_attrs())


def test_published_indices_in_percent_are_compared_with_decimal_volatilities() -> None:
    time = np.datetime64("2026-01-01", "us") + np.arange(2) * np.timedelta64(1, "D")
    index = xr.DataArray([50.0, 60.0], {"time": time}, "time", "index_pct", {"units": "%"})
    ended = xr.DataArray([0.4, 0.3], {"time": time}, "time", attrs={"units": "1/√year"})
    edge = volatility.implied_minus_realised(index, ended, window="1d")
    np.testing.assert_allclose(edge["volatility"], [0.5 - 0.3, np.nan], rtol=1e-14)
    old = ended.assign_attrs(units="1/sqrt(year)")  # as in files written before version 0.2
    xr.testing.assert_identical(volatility.implied_minus_realised(index, old, window="1d"), edge)
    with pytest.raises(ValueError, match="implied must be a volatility in '1/√year' or '%', got 'bps/8h'"):
        volatility.implied_minus_realised(index.assign_attrs(units="bps/8h"), ended, window="1d")
    with pytest.raises(ValueError, match="realised must be a volatility in '1/√year' or '%', got 'USD'"):
        volatility.implied_minus_realised(index, ended.assign_attrs(units="USD"), window="1d")
    deribit, okx = index.expand_dims(exchange=["deribit"]), ended.expand_dims(exchange=["okx"])
    with pytest.raises(
        ValueError, match=r"have a common exchange, got deribit and okx.*sel\(exchange='okx'\)"
    ):
        volatility.implied_minus_realised(deribit, okx, window="1d")
    selected = volatility.implied_minus_realised(deribit, okx.sel(exchange="okx"), window="1d")
    np.testing.assert_allclose(selected["volatility"].squeeze(), [0.2, np.nan], rtol=1e-14)
