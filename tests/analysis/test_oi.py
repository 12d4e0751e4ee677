import os

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.signal import lfilter

from derivdata import tables
from derivdata.analysis import oi
from derivdata.analysis.oi import TrendStatus
from tests.analysis.pages import coverage_on_page
from tests.support.shared import known_path

SOAK = os.environ.get("DERIVDATA_SOAK") == "1"
HOURS = pd.date_range("2026-01-01", periods=48, freq="h").as_unit("us")


def panel(values: object, venues: str = "abc", times: pd.DatetimeIndex = HOURS) -> xr.DataArray:
    array = np.asarray(values, dtype=float)
    return xr.DataArray(
        array,
        dims=("exchange", "time"),
        coords={"exchange": list(venues), "time": times[: array.shape[1]]},
        attrs={"units": "USD"},
    )


def expected(name: str) -> pd.Series:
    frame = pd.read_csv(known_path("concentration_migration_expected"))
    return frame[frame["quantity"] == name].reset_index(drop=True)["expected"]


@pytest.mark.parametrize(
    ("row", "shares"), [(0, [30, 30, 20, 20]), (1, [30, 20, 15, 15, 10, 10]), (2, [32, 25, 19, 9, 8, 7])]
)
def test_hhi_equals_textbook_example(row: int, shares: list[float]) -> None:
    result = oi.hhi(xr.DataArray(np.array(shares) / 100, dims="exchange"))
    assert result["hhi_10000"].item() == pytest.approx(expected("hhi_10000")[row], abs=1e-9)
    assert result["hhi"].item() == pytest.approx(expected("hhi_10000")[row] / 1e4, abs=1e-13)
    assert result["n"].item() == len(shares)


def test_hhi_companions() -> None:
    result = oi.hhi(xr.DataArray([0.3, 0.3, np.nan, 0.2, 0.2], dims="exchange"))
    assert result["effective_n"].item() == pytest.approx(expected("effective_n")[0], abs=1e-11)
    assert result["normalised"].item() == pytest.approx(expected("hhi_normalised")[0], abs=1e-13)
    alone = oi.hhi(xr.DataArray([1.0, np.nan], dims="exchange"))
    assert alone["hhi"].item() == 1.0
    assert np.isnan(alone["normalised"].item())
    assert np.isnan(oi.hhi(xr.DataArray([np.nan, np.nan], dims="exchange"))["hhi"].item())
    nobody = oi.hhi(xr.DataArray(np.empty((2, 0)), dims=("time", "exchange")))
    assert all(np.isnan(figure).all() for figure in nobody.values())
    result = oi.hhi(xr.DataArray([[1.0, np.nan], [0.5, 0.5]], dims=("time", "exchange")))
    assert result["hhi"].values.tolist() == [1.0, 0.5]
    assert result["n"].values.tolist() == [1.0, 2.0]
    assert np.isnan(result["normalised"].values[0]), "(1 − 1)/(1 − 1)"
    assert result["normalised"].values[1] == 0.0
    # (0.81 − 1)/(1 − 1) is no number, and not minus infinity.
    assert np.isnan(oi.hhi(xr.DataArray([0.9], dims="exchange"))["normalised"].item())


def test_shares_add_up_over_venues_that_cover_the_window() -> None:
    """a has 60 USD and b 30 USD, but for one hour. c has the last 8 of 48 hours only."""
    values = np.array([[60.0] * 48, [30.0] * 48, [np.nan] * 40 + [500.0] * 8])
    values[1, 5] = np.nan
    share = oi.market_share(panel(values))
    np.testing.assert_allclose(share.sel(exchange=["a", "b"]).sum("exchange"), 1.0)
    np.testing.assert_allclose(share.sel(exchange="a"), 2 / 3)
    assert share.sel(exchange="c").isnull().all()
    assert share.attrs["dropped"] == "c"


def test_share_uses_the_last_value_within_the_tolerance() -> None:
    """b lacks hours 10 to 15: its value of hour 9 is used in the hours 10 to 13."""
    values = np.array([[60.0] * 48, [30.0] * 48])
    values[1, 10:16] = np.nan
    share = oi.market_share(panel(values, "ab"), min_cover=0.5, tolerance="4h")
    has_all = share.notnull().all("exchange").values
    assert has_all[:14].all()
    assert not has_all[14:16].any()
    assert has_all[16:].all()
    assert (share.notnull().any("exchange") == share.notnull().all("exchange")).all()


def test_venue_below_the_minimum_cover_is_dropped() -> None:
    """b has 19 of 20 values, a cover of 95 %."""
    values = np.full((2, 20), 50.0)
    values[1, 0] = np.nan
    share = oi.market_share(panel(values, "ab"), min_cover=0.95)
    assert np.isnan(share[0, 0]), "b has no value in the first hour"
    assert share[0, 1:].values.tolist() == [0.5] * 19
    alone = oi.market_share(panel(values, "ab"), min_cover=0.96)
    assert alone.attrs["dropped"] == "b"
    assert alone[0].values.tolist() == [1.0] * 20


@pytest.mark.parametrize("method", ["base", "midpoint", "lmdi"])
@pytest.mark.parametrize(("venue", "column"), [("A", 0), ("B", 1)])
def test_migration_equals_hand_calculation(method: str, venue: str, column: int) -> None:
    open_interest = panel([[60, 66], [40, 84]], "AB")
    result = oi.migration(open_interest, HOURS[0], HOURS[1], method=method).sel(exchange=venue)
    for part in ("growth", "share", "interaction"):
        known = expected(f"migration_{method}_{venue}:{part}")
        if len(known):
            assert result[part].item() == pytest.approx(known[0], abs=5e-9)
    parts = [name for name in result.data_vars if name != "change"]
    assert sum(result[name].item() for name in parts) == pytest.approx([6, 44][column], abs=1e-12)


def test_migration_takes_the_price_out_first() -> None:
    open_interest = panel([[1000, 1320]], "A")
    price = xr.DataArray([100.0, 110.0], dims="time", coords={"time": HOURS[:2]})
    result = oi.migration(open_interest, HOURS[0], HOURS[1], price=price)
    assert result["price"].item() == pytest.approx(expected("price_quantity_midpoint:price")[0], abs=1e-12)
    quantity = result["growth"].item() + result["share"].item()
    assert quantity == pytest.approx(expected("price_quantity_midpoint:quantity")[0], abs=1e-12)
    for method in ("base", "lmdi"):
        result = oi.migration(open_interest, HOURS[0], HOURS[1], method=method, price=price)
        parts = sum(result[name].item() for name in result.data_vars if name != "change")
        assert parts == pytest.approx(result["change"].item(), rel=1e-12)
    open_interest = panel([[0, 50], [100, 100]], "AB")
    one = oi.migration(open_interest, HOURS[0], HOURS[1], method="lmdi").sel(exchange="A")
    other = oi.migration(open_interest, HOURS[0], HOURS[1]).sel(exchange="A")
    assert one["growth"].item() == other["growth"].item()
    assert one["change"].item() == 50


def test_theil_sen_equals_published_example() -> None:
    points = pd.read_csv(known_path("theil_sen"))
    known = pd.read_csv(known_path("theil_sen_expected")).set_index("quantity")
    days = pd.DatetimeIndex(
        pd.Timestamp("2026-01-01") + pd.to_timedelta(points["x"].to_numpy(), unit="D")
    ).as_unit("us")
    series = xr.DataArray(points["y"].to_numpy(float), dims="time", coords={"time": days})
    result = oi.share_trend(series, ci="iid", level=0.93)
    assert result["slope"].item() == known.loc["slope", "value"]
    assert result["low"].item() == pytest.approx(known.loc["ci_low_93", "value"], abs=1e-10)
    assert result["high"].item() == pytest.approx(known.loc["ci_high_93", "value"], abs=1e-10)


def _shares(process: str, n: int, seeds: int) -> xr.DataArray:
    """Series without a trend, every eight hours: name and φ of an autoregression, or a random walk."""
    name, phi = process.split()[0], float(process.split()[-1])
    rng = np.random.default_rng(23)
    shocks = rng.standard_normal((seeds, n + (0 if phi == 1.0 else 1_000)))
    values = lfilter([1.0], [1.0, -phi], shocks, axis=1)[:, -n:]
    if name == "noise":
        values = values + 3.0 * rng.standard_normal(values.shape)
    if name == "cycle":
        values = values + 4.0 * np.cos(2.0 * np.pi * np.arange(n) / 3.0)
    times = pd.date_range("2026-01-01", periods=n, freq="8h").as_unit("us")
    return xr.DataArray(values, dims=("seed", "time"), coords={"time": times})


def _trend_counts(process: str, n: int, seeds: int) -> tuple[float, float, float]:
    """Shares of the intervals that contain the true 0, are undetermined, or miss it without a status."""
    result = oi.share_trend(_shares(process, n, seeds))
    misses = (result["low"] > 0) | (result["high"] < 0)
    blank = (result["status"] & TrendStatus.CANNOT_TELL) > 0
    return tuple(float(part.mean()) for part in (~misses, blank, misses & ~blank))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("process", "covered", "blank"),
    [
        ("autoregression 0.5", 0.88, (0.0, 0.1)),
        ("cycle 0.9", 0.93, (0.0, 0.85)),
        ("noise 0.9", 0.7, (0.0, 0.2)),
        ("autoregression 0.99", 0.8, (0.85, 1.0)),
        ("walk 1.0", 0.7, (0.85, 1.0)),
    ],
)
def test_trend_is_accurate_or_has_a_status(process: str, covered: float, blank: tuple[float, float]) -> None:
    """Of 60 intervals of 95 %, at most a tenth miss 0 without a status, or a fourth under noise."""
    covering, undetermined, missing = _trend_counts(process, 120, 60)
    assert covering >= covered
    assert blank[0] <= undetermined <= blank[1]
    assert missing <= (0.25 if process.startswith("noise") else 0.1)


PAGE = {f"autoregression {phi}": f"autoregression, φ = {phi}" for phi in (0.5, 0.8, 0.9, 0.95, 0.99)}
PAGE |= {"walk 1.0": "random walk", "cycle 0.5": "φ = 0.5 and a cycle of the day of four shocks"}
PAGE |= {f"cycle {phi}": f"φ = {phi} and the cycle" for phi in (0.9, 0.95)}
PAGE |= {f"noise {phi}": f"φ = {phi} under that noise" for phi in (0.95, 0.98)}
PAGE |= {"noise 0.9": "φ = 0.9 under noise of three shocks"}


@pytest.mark.skipif(not SOAK, reason="the long form: DERIVDATA_SOAK=1")
@pytest.mark.parametrize(("process", "row"), PAGE.items())
def test_trends_of_270_steps_have_the_documented_coverage(process: str, row: str) -> None:
    """The table of docs/market-structure.md: 300 series each; at most 8 % miss, under noise 15."""
    shares = _trend_counts(process, 270, 300)
    _, _, missing = shares
    assert shares == pytest.approx(coverage_on_page("trend_coverage", row), abs=0.011)
    assert missing <= (0.15 if process.startswith("noise") else 0.08)


def test_ratio_to_volume_is_nan_without_a_volume() -> None:
    open_interest = panel([[10.0, 10.0, 10.0]], "a")
    volume = panel([[5.0, 0.0, np.nan]], "a")
    np.testing.assert_array_equal(oi.oi_to_volume(open_interest, volume), [[10.0 / 5.0, np.nan, np.nan]])
    with pytest.raises(ValueError, match="units='USD'"):
        oi.oi_to_volume(open_interest.assign_attrs(units="coin"), volume)


def test_open_interest_is_summed_by_kind_of_venue() -> None:
    open_interest = xr.DataArray(
        [[1.0, 2.0, 4.0, 8.0]],
        dims=("time", "exchange"),
        coords={"exchange": ["binance", "okx", "hyperliquid", "nowhere"]},
        attrs={"units": "USD"},
    )
    kinds = oi.by_kind(open_interest)
    assert kinds.sel(kind="cex").item() == 1.0 + 2.0
    assert kinds.sel(kind="dex").item() == 4.0
    assert kinds.sel(kind="unknown").item() == 8.0
    assert kinds.attrs["venues_as_of"] == tables.contracts.VENUES_AS_OF


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: oi.market_share(panel([[1.0]], "a").drop_attrs()), "the unit of oi is missing"),
        (
            lambda: oi.market_share(panel([[1.0]], "a").rename(time="t")),
            "oi must have the dim 'time', got dims",
        ),
        (lambda: oi.market_share(panel([[1.0]], "a"), venues=["zz"]), "'zz' is not a venue of this panel"),
        (
            lambda: oi.migration(panel([[1.0, 2.0]], "a"), HOURS[0], HOURS[40]),
            r"end must be a timestamp of the panel oi, got Timestamp\('2026-01-02 16:00:00'\)",
        ),
        (lambda: oi.hhi(panel([[1.0]], "a"), dim="venue"), "share must have the dim 'venue', got dims"),
    ],
)
def test_invalid_arguments_are_rejected(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("spoil", [np.nan, 1e15, 0.0])
def test_open_interest_functions_have_no_look_ahead(spoil: float) -> None:
    values = np.random.default_rng(5).uniform(1, 9, (3, 48))
    future = panel(np.where(np.arange(48) >= 30, spoil, values))
    now = panel(values)
    for item, other in (
        (oi.hhi(oi.market_share(now, venues=["a", "b"])), oi.hhi(oi.market_share(future, venues=["a", "b"]))),
        (oi.oi_to_volume(now, now), oi.oi_to_volume(future, now)),
        (oi.by_kind(now), oi.by_kind(future)),
    ):
        xr.testing.assert_equal(item.isel(time=slice(0, 30)), other.isel(time=slice(0, 30)))


def test_negative_open_interest_rates_and_times_that_do_not_ascend_are_rejected() -> None:
    open_interest = panel([[1.0, -1.0], [1.0, 3.0]], "ab")
    for refused in (
        lambda: oi.market_share(open_interest),
        lambda: oi.market_share(open_interest.where(open_interest > 0.5)[::-1].fillna(-1.0)),
        lambda: oi.by_kind(open_interest),
        lambda: oi.migration(open_interest, HOURS[0], HOURS[1]),
        lambda: oi.hhi(xr.DataArray([1.5, -0.5], dims="exchange")),
    ):
        with pytest.raises(ValueError, match=r"must be .*, got a negative value"):
            refused()
    with pytest.raises(ValueError, match="oi must be in 'USD' or 'coin', got 'bps/8h'"):
        oi.market_share(panel([[1.0, 2.0]], "a").assign_attrs(units="bps/8h"))
    open_interest = panel([[1.0, np.nan, 3.0, 4.0], [1, 1, 1, 1]], "ab")
    for wrong in (open_interest[:, ::-1], open_interest.isel(time=[0, 1, 1, 2])):
        for refused in (
            lambda x: oi.market_share(x, min_cover=0.5),
            lambda x: oi.share_trend(x.drop_attrs()),
        ):
            with pytest.raises(ValueError, match="must ascend without duplicates"):
                refused(wrong)
    with pytest.raises(ValueError, match="share must be a fraction, got 'USD'"):
        oi.hhi(open_interest)


FORTY_DAYS = pd.date_range("2026-01-01", periods=40, freq="D").as_unit("us")


def _daily(values: np.ndarray) -> xr.DataArray:
    return xr.DataArray(values, {"time": FORTY_DAYS[: len(values)]}, ("time",))


def test_autocorrelation_of_residuals_is_corrected_for_few_rows() -> None:
    """A lag-one autocorrelation r of n = 40 residuals is corrected to (40 r + 2) / 36."""
    series = np.sin(np.arange(40) * 1.2)
    result = oi.share_trend(_daily(series))
    residual = series - result["slope"].item() * np.arange(40)
    centred = residual - residual.mean()
    raw = float(centred[1:] @ centred[:-1] / (centred @ centred))
    assert result["phi"].item() == pytest.approx((40 * raw + 2) / 36, rel=1e-12)
    assert 0.0 < result["phi"].item() < 0.99


def test_negative_autocorrelation_counts_as_zero() -> None:
    """Neighbours differ by 2 radians: their correlation is about cos 2 = −0.42."""
    assert oi.share_trend(_daily(np.sin(np.arange(40) * 2.0)))["phi"].item() == 0.0


def test_trend_without_residuals_has_all_rows_as_effective_rows() -> None:
    line = oi.share_trend(_daily(np.arange(40.0)))
    assert (line["status"].item(), line["n_effective"].item()) == (0, 40.0)
    zeros = oi.share_trend(_daily(np.zeros(40)))
    assert (zeros["phi"].item(), zeros["n_effective"].item()) == (0.0, 40.0)


def test_trend_of_two_rows_or_of_a_slow_wave_has_a_status() -> None:
    two = oi.share_trend(_daily(np.arange(2.0)))
    assert two["status"].item() == TrendStatus.TOO_FEW
    assert np.isnan(two["slope"].item())
    assert np.isnan(two["n_effective"].item())
    wave = oi.share_trend(_daily(np.cos(np.arange(40.0) / 12.0)))
    assert wave["status"].item() == TrendStatus.CANNOT_TELL
    assert wave["n_effective"].item() < 8.0
    assert wave["status"].attrs["flag_meanings"] == "too_few cannot_tell"


def test_slope_of_a_trend_ignores_missing_days() -> None:
    line = _daily(np.arange(9.0))
    every_second_day = oi.share_trend(line.where(line % 2 == 0))
    assert every_second_day["slope"].item() == oi.share_trend(line)["slope"].item() == 1.0
    assert every_second_day["n"].item() == 5
