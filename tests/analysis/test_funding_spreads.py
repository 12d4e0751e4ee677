import numpy as np
import pytest
import xarray as xr

from derivdata.analysis import funding
from derivdata.analysis.settlements import other_coins
from tests.analysis.funding_made import dollars, market, noisy
from tests.support.records import attrs_of
from tests.support.shared import known


def _slow_best(rates: dict[str, float]) -> tuple[str, str, float]:
    """The definition, one cell at a time."""
    known = {venue: rate for venue, rate in sorted(rates.items()) if not np.isnan(rate)}
    if len(known) < 2:
        return "", "", np.nan
    low, high = min(known.values()), max(known.values())
    if low == high:
        return "", "", 0.0
    first = {rate: venue for venue, rate in reversed(known.items())}
    return first[low], first[high], high - low


def test_spread_is_short_rate_minus_long_rate():
    panel = market([[[1.0, -2.0, np.nan], [4.0, 0.5, 1.0]]])
    earned = funding.spread(panel, "v00", "v01")
    np.testing.assert_array_equal(earned.squeeze(), [3.0, 2.5, np.nan])
    assert attrs_of(earned) == {"units": "bps/8h", "kind": "settled"}
    np.testing.assert_array_equal(funding.spread(panel, "v01", "v00"), -earned)
    with pytest.raises(ValueError, match=r"'nowhere' is not a venue.*v00, v01"):
        funding.spread(market(np.ones((1, 2, 3))), "v00", "nowhere")
    panel = noisy(gaps=0.2)
    pairs = funding.spread(panel)
    assert pairs.dims == ("symbol", "long", "short", "time")
    for long, short in (("v00", "v01"), ("v03", "v02")):
        one = pairs.sel(long=long, short=short, drop=True)
        np.testing.assert_array_equal(one, funding.spread(panel, long, short))
    round_trip = (
        pairs.sel(long="v00", short="v01", drop=True)
        + pairs.sel(long="v01", short="v02", drop=True)
        + pairs.sel(long="v02", short="v00", drop=True)
    )
    assert abs(round_trip).max() < 1e-14


@pytest.mark.parametrize("shape", [(1, 3, 1), (3, 5, 40), (2, 43, 17), (40, 4, 1)])
def test_best_pair_equals_its_definition(shape):
    rng = np.random.default_rng(7)
    values = rng.integers(-3, 4, shape).astype(float)  # few levels: ties are common
    values[rng.random(shape) < 0.3] = np.nan
    panel = market(values)
    best = funding.best_pair(panel)
    for symbol in range(shape[0]):
        for time in range(shape[2]):
            cell = dict(zip(panel["exchange"].values, values[symbol, :, time], strict=True))
            long, short, spread = _slow_best(cell)
            at = best.isel(symbol=symbol, time=time)
            assert (str(at["long"].values), str(at["short"].values)) == (long, short)
            np.testing.assert_equal(float(at["spread_bps_8h"]), spread)
            assert int(at["venues"]) == np.isfinite(values[symbol, :, time]).sum()


def test_blocks_larger_and_smaller_than_the_cache_agree():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(2, 3, 40_000))
    values[rng.random(values.shape) < 0.1] = np.nan
    best = funding.best_pair(market(values))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(
            best["spread_bps_8h"],
            np.where(
                np.isfinite(values).sum(1) < 2,
                np.nan,
                np.fmax.reduce(values, axis=1) - np.fmin.reduce(values, axis=1),
            ),
        )


def test_best_pair_handles_more_than_255_venues():
    rates = np.arange(300.0)
    rates[[0, 299]] = rates[[299, 0]]
    best = funding.best_pair(market(rates.reshape(1, 300, 1), venues=[f"v{i:03d}" for i in range(300)]))
    assert (str(best["long"].squeeze().values), str(best["short"].squeeze().values)) == ("v299", "v000")
    assert int(best["venues"].squeeze()) == 300


def _legs(best: xr.Dataset) -> tuple[str, str]:
    return str(best["long"].squeeze().values), str(best["short"].squeeze().values)


def test_best_pair_omits_venues_with_little_open_interest():
    """v00, v01 and v02 have rates of 5, 1 and -5 bps, and 10, 99 and unknown USD."""
    panel = market([[[5.0], [1.0], [-5.0]]])
    oi = dollars(panel).copy(data=np.array([[[10.0], [99.0], [np.nan]]]))
    assert _legs(funding.best_pair(panel, oi_usd=oi, min_oi_usd=10.0)) == ("v01", "v00")
    none = funding.best_pair(panel, oi_usd=oi, min_oi_usd=50.0)
    assert int(none["venues"].squeeze()) == 1
    assert np.isnan(none["spread_bps_8h"]).all()
    assert _legs(none) == ("", "")


def test_best_pair_omits_old_rates():
    panel = market([[[5.0], [1.0], [-5.0]]])
    age = panel.copy(data=np.array([[[0.0], [0.5], [9.0]]])).assign_attrs(units="h")
    assert _legs(funding.best_pair(panel, age_hours=age, max_age="1h")) == ("v01", "v00")


def test_best_pair_omits_venues_that_are_not_tradable():
    panel = market([[[5.0, 5.0], [1.0, 1.0], [-5.0, -5.0]]])
    best = funding.best_pair(panel, tradable=["v01", "v02"])
    assert best["short"].squeeze().values.tolist() == ["v01", "v01"]
    tradable_later = xr.DataArray(
        [[True, True, False], [True, True, True]],
        dims=("time", "exchange"),
        coords={"time": panel["time"], "exchange": panel["exchange"]},
    )
    best = funding.best_pair(panel, tradable=tradable_later)
    assert best["long"].squeeze().values.tolist() == ["v01", "v02"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"min_oi_usd": 1.0}, ValueError, "be passed together: pass both or neither"),
        ({"age_hours": market(np.ones((1, 3, 1)))}, ValueError, "be passed together: pass both or neither"),
        (
            {"oi_usd": market(np.ones((1, 3, 1))), "min_oi_usd": 1.0},
            ValueError,
            "oi_usd must be in 'USD', got 'bps/8h'",
        ),
        ({"tradable": ["v09"]}, ValueError, "'v09'"),
        ({"tradable": market(np.ones((1, 3, 1)))}, TypeError, "boolean"),
    ],
)
def test_invalid_filter_is_rejected(options, error, message):
    with pytest.raises(error, match=message):
        funding.best_pair(market(np.ones((1, 3, 1))), **options)


def test_dispersion_of_five_rates_equals_hand_calculation():
    """Rates 1 2 4 8 and a gap: median 3, quartiles 1.75 and 5, sum of squares 28.75 around 3.75."""
    spread = funding.dispersion(market([[[4.0], [1.0], [np.nan], [8.0], [2.0]]])).squeeze()
    assert float(spread["median_bps_8h"]) == 3.0
    assert float(spread["iqr_bps_8h"]) == 3.25
    assert float(spread["range_bps_8h"]) == 7.0
    assert float(spread["std_bps_8h"]) == pytest.approx((28.75 / 3) ** 0.5, rel=1e-15)
    assert int(spread["venues"]) == 4
    spread = funding.dispersion(market([[[4.0, np.nan], [np.nan, np.nan]]])).squeeze()
    assert np.isnan(spread["std_bps_8h"]).all()
    assert np.isnan(spread["range_bps_8h"]).all()
    np.testing.assert_array_equal(spread["median_bps_8h"], [4.0, np.nan])
    assert spread["venues"].values.tolist() == [1, 0]


def test_a_settlement_of_eight_hours_is_there_between_hourly_ones() -> None:
    """Two venues pay 1 and 1.5 every hour, one 40 every 8 hours: at each hour the latter is the short leg."""
    rates = np.full((1, 3, 25), np.nan)
    rates[0, 0], rates[0, 1], rates[0, 2, ::8] = 1.0, 1.5, 40.0
    hours = xr.DataArray([1.0, 1.0, 8.0], dims="exchange", attrs={"units": "h"})
    panel = market(rates, step=1.0).drop_vars("interval_hours").assign_coords(interval_hours=hours)
    result = funding.best_pair(panel)
    assert set(result["short"].values.ravel()) == {"v02"}
    assert set(result["spread_bps_8h"].values.ravel()) == {39.0}
    late = funding.best_pair(panel.isel(time=slice(None, 20)).where(panel["time"] < panel["time"][16]))
    assert late["short"].values[0, 15] == "v02"
    assert late["short"].values[0, 16:].tolist() == [""] * 4, "what is due and did not come is not carried"


@pytest.mark.parametrize(("factor", "other"), [(0.0091, True), (0.94, True), (1.06, True), (0.97, False)])
def test_prices_of_two_venues_are_compared_as_a_ratio(factor: float, other: bool) -> None:
    """The mean of two prices is halfway: 0.94 would pass, and 0.0091 would be shown as 0.018."""
    prices = market(np.array([100.0, 100.0 * factor])[None, :, None] * np.ones(30)).drop_vars(
        "interval_hours"
    )
    prices = prices.assign_attrs(units="USD").rename("price_usd")
    assert basis_factors(prices) == (pytest.approx([1.0 / factor, factor]) if other else [])
    rates = market(np.array([1.0, 3.0])[None, :, None] * np.ones(30))
    assert (funding.best_pair(rates, prices=prices)["short"] == ("" if other else "v01")).all()


def basis_factors(prices: xr.DataArray) -> list[float]:
    return [float(factor) for factor in other_coins(prices).values.ravel() if np.isfinite(factor)]


def test_published_pairs():
    rates = known("funding_pair_panel")
    panel = xr.DataArray(
        [[float(row[venue] or "nan") for venue in "abc"] for row in rates],
        dims=("time", "exchange"),
        coords={
            "time": np.array([row["time"].rstrip("Z") for row in rates], "datetime64[us]"),
            "exchange": list("abc"),
        },
        attrs={"units": "bps/8h", "kind": "settled"},
    )
    best = funding.best_pair(panel)
    for place, row in enumerate(known("funding_pair_expected")):
        at = best.isel(time=place)
        assert (str(at["long"].values), str(at["short"].values)) == (row["long"], row["short"])
        assert float(at["spread_bps_8h"]) == pytest.approx(float(row["spread_bps_8h"]), abs=2e-16)
    assert best["venues"].values.tolist() == [3, 3, 2, 3]
