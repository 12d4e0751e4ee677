import numpy as np
import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from derivdata.analysis import align, business_time, chain
from derivdata.analysis.panels import (
    along,
    require_columns,
    require_draws,
    require_together,
    seed_of,
    together,
)
from tests.support.records import assert_identical

GRID = xr.DataArray(np.zeros((2, 3)), {"venue": ["a", "b"]}, ("venue", "time"))


def test_bare_arrays_get_the_last_dims_of_labelled_ones() -> None:
    labelled, row = together(one=GRID, other=np.array([1.0, 2.0, 3.0]))
    assert labelled is GRID
    assert row.dims == ("time",)
    assert row.values.tolist() == [1.0, 2.0, 3.0]
    require_together(one=pd.Series([1.0, 2.0]), other=pd.Series([1.0, 2.0, 3.0]))


@pytest.mark.parametrize(
    "others",
    [
        {"one": np.ones(2), "odd": np.ones(3)},
        {"one": GRID, "odd": np.ones(2)},
        {"one": xr.DataArray(1.0), "odd": np.ones(2)},
        {"one": GRID, "odd": np.ones((4, 2, 3))},
    ],
)
def test_an_array_that_does_not_fit_is_rejected_by_name(others: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^odd has the shape"):
        together(**others)


def test_companion_arguments_broadcast_along_non_core_dims() -> None:
    (size,) = along(GRID, "time", size=[1.0, 2.0])
    assert size.dims == ("venue",)
    (more,) = along(GRID, "time", new=True, more=xr.DataArray([1.0], dims="size"))
    assert more.dims == ("size",)
    with pytest.raises(TypeError, match="odd must be a number or an array"):
        along(GRID, "time", odd=xr.Dataset())


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (xr.DataArray([1.0], dims="size"), "the dim 'size'"),
        (xr.DataArray([1.0, 2.0, 3.0], dims="time"), "the dim 'time'"),
        (xr.DataArray([1.0], dims="venue"), "must have 2 labels along 'venue' as the data, got 1"),
        (np.ones(3), "has the shape"),
    ],
)
def test_companion_argument_with_other_labels_is_rejected(odd: object, why: str) -> None:
    with pytest.raises(ValueError, match=f"^odd .*{why}"):
        along(GRID, "time", odd=odd)


def test_number_of_draws_must_be_in_its_range() -> None:
    require_draws(1)
    with pytest.raises(
        ValueError, match="resamples must be from 99 to 100,000 to find the ends of an interval, got 98"
    ):
        require_draws(98, minimum=99)
    with pytest.raises(ValueError, match="to find the ends of an interval, got 1000000"):
        require_draws(1_000_000)


def test_seed_is_a_number_of_0_or_more_or_a_generator() -> None:
    assert seed_of(7) == 7
    assert seed_of(np.random.default_rng(1)) == seed_of(np.random.default_rng(1)) != seed_of(None)
    with pytest.raises(ValueError, match="rng must be a seed of 0 or more, got -1"):
        seed_of(-1)


def test_side_must_be_call_or_put() -> None:
    with pytest.raises(ValueError, match="got 'calls'"):
        dd.analysis.black76.price(100.0, 100.0, 0.5, 0.5, "calls")


def test_cboe_accepts_years_and_rates_by_expiry_without_labels() -> None:
    strikes = xr.DataArray(np.arange(70.0, 131.0, 5.0), dims="strike")
    strikes = strikes.assign_coords(strike=strikes)
    side = xr.DataArray(["call", "put"], {"side": ["call", "put"]}, "side")
    years = xr.DataArray([0.1, 0.5], dims="expiry")
    quotes = dd.analysis.black76.price(100.0, strikes, years, 0.5, side)
    labelled = dd.analysis.variance.cboe(
        quotes, quotes, years, interest_rate=xr.DataArray([0.0, 0.1], dims="expiry")
    )
    bare = dd.analysis.variance.cboe(quotes, quotes, np.array([0.1, 0.5]), interest_rate=np.array([0.0, 0.1]))
    assert_identical(bare, labelled)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: dd.analysis.align.align(GRID_OF_HOURS, "0h"), "grid"),
        (lambda: dd.analysis.align.align(GRID_OF_HOURS.astype(str), "4h"), "panel"),
        (lambda: dd.analysis.align.align(GRID_OF_HOURS, "1us", tolerance="4h"), "grid"),
    ],
)
def test_invalid_grid_is_rejected(call: object, name: str) -> None:
    with pytest.raises((ValueError, TypeError), match=name):
        call()  # type: ignore[operator]


GRID_OF_HOURS = xr.DataArray(np.ones(4), {"time": pd.date_range("2026-06-29", periods=4, freq="h")}, "time")


def rates(kind: str, hours: int = 40) -> xr.DataArray:
    times = pd.date_range("2026-06-29", periods=hours, freq="h")
    values = np.random.default_rng(1).normal(size=(2, hours))
    attrs = {"units": "bps/8h", "kind": kind}
    return xr.DataArray(values, {"exchange": ["a", "b"], "time": times}, ("exchange", "time"), attrs=attrs)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (
            lambda f: f.comovement(rates("sampled"), period="0.01ms"),
            "h is too short: it splits this panel into more than",
        ),
        (lambda f: f.comovement(rates("sampled"), max_lag=10**30), "max_lag"),
        (
            lambda f: f.half_life(rates("settled"), period="1us"),
            "h is too short: it splits the panel into more than",
        ),
        (lambda f: f.half_life(rates("settled"), period=8.0), "period must be"),
        (lambda f: f.spread(rates("settled") > 0.0, "a", "b"), "panel"),
        (
            lambda f: f.spread(xr.concat([rates("settled")] * 2, "exchange"), "a", "b"),
            "long: the panel must have 'a' once along exchange",
        ),
        (
            lambda f: f.spread(rates("settled").assign_coords(time=range(40)), "a", "b"),
            "panel must have a time dim and coordinate in naive UTC datetime64, got int64",
        ),
        (lambda f: f.spread(rates("settled").expand_dims(symbol=[0]), "a", "b"), "along symbol must be"),
    ],
)
def test_invalid_panel_or_period_is_rejected_with_its_argument(call: object, name: str) -> None:
    with pytest.raises((ValueError, TypeError), match=name):
        call(dd.analysis.funding)  # type: ignore[operator]


def test_parameters_and_times_of_two_lengths_are_rejected_by_name() -> None:
    raw = dd.analysis.smile.svi.Raw(0.02, 0.13, -0.3, 0.0, 0.4)
    with pytest.raises(ValueError, match="year_fraction, k_min, k_max and forward"):
        dd.analysis.smile.from_raw(raw, np.ones(2), forward=np.ones(3))
    surface = dd.analysis.surface.from_essvi([0.02, 0.06], -0.3, 0.1, [0.1, 0.3])
    with pytest.raises(ValueError, match="near and far"):
        dd.analysis.surface.forward_variance(surface, [0.1, 0.2], [0.2, 0.25, 0.3])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("time", np.nan, "table must have times in the column 'time', got float64"),
        ("exchange", np.nan, "table must have text in the column 'exchange', got float64"),
        ("instrument_name", pd.NaT, "table must have text in the column 'instrument_name', got datetime64"),
    ],
)
def test_a_column_of_another_kind_than_in_the_tables_is_rejected(
    column: str, value: object, message: str
) -> None:
    frame = pd.DataFrame({"other": ["x"], column: value})
    require_columns(frame.iloc[:0], "table", others=("other", column))
    with pytest.raises(ValueError, match=message):
        require_columns(frame, "table", others=("other", column))


def test_valid_columns_and_labels_of_other_types_are_accepted() -> None:
    """Objects and None where a venue quotes no coins; keys and values of our names; no labels at all."""
    times = pd.date_range("2026-06-01", periods=4, freq="h", tz="UTC")
    quotes = pd.DataFrame(
        {"strike": [9e4, 1e5], "side": ["put", "call"], "iv": [0.6, 0.5], "bid_usd": [1e3, 5e3]}
    )
    quotes = quotes.assign(time=times[0], expiry=times[0] + pd.Timedelta("30D"), underlying_price=1e5)
    for odd in ({"bid_coin": None, "ask_coin": None}, {"bid_usd": quotes["bid_usd"].astype(object)}):
        assert chain.clean(quotes.assign(**odd))["iv"].tolist() == [0.6, 0.5]
    table = pd.DataFrame({"symbol": "BTC", "exchange": ["okx"] * 4, "time": times, "status": range(4)})
    assert dd.panel(table, "status").values.ravel().tolist() == [0.0, 1.0, 2.0, 3.0]
    joined = align.asof_join(table, table.assign(rate=1.5), by=("status",), tolerance="1h")
    assert joined["rate"].tolist() == [1.5] * 4
    rates = xr.DataArray(
        np.zeros((2, 4)),
        {"exchange": ["a", "b"], "time": times.tz_localize(None)},
        attrs={"units": "bps/8h", "kind": "sampled"},
    )
    assert dd.analysis.funding.dispersion(rates.reindex(exchange=[])).sizes["time"] == 4
    texts = np.array(["2026-01-03", "2026-01-05"])
    assert business_time.years("2026-01-02", texts, weekend_weight=1.0).shape == (2,)


def test_bars_without_a_dim_of_time_or_without_a_venue() -> None:
    price = xr.DataArray(
        np.linspace(100.0, 110.0, 97)[None],
        {"exchange": ["a"], "time": pd.date_range("2026-06-01", periods=97, freq="h")},
        ("exchange", "time"),
        attrs={"units": "USD"},
    )
    bars = dd.analysis.volatility.bars(price, step="1h")
    with pytest.raises(
        TypeError, match="data must have a time dim and coordinate in naive UTC datetime64, got no time"
    ):
        dd.analysis.volatility.cone(bars.isel(time=0), ["1d"])
    assert dd.analysis.volatility.cone(bars.isel(exchange=slice(0)), ["1d"]).sizes["exchange"] == 0
