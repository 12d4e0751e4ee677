from collections.abc import Callable
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr

from derivdata.analysis import funding
from tests.analysis.funding_made import dollars, noisy
from tests.support.records import assert_identical

SETTLED = noisy(symbols=2, venues=4, rows=80, gaps=0.1)
SAMPLED = noisy(symbols=2, venues=4, rows=80, gaps=0.1, kind="sampled")
PAIRS = [("v00", "v02"), ("v03", "v01")]


def _oi(panel: xr.DataArray) -> xr.DataArray:
    """Open interest made of the panel itself, so that its garbage and its chunks are the panel's."""
    bare = panel.drop_vars("interval_hours", errors="ignore")
    return np.exp(bare.clip(-5.0, 5.0)).drop_attrs().assign_attrs(units="USD").rename("oi_usd")


Case = Callable[[xr.DataArray], Any]

OVER_TIME: dict[str, tuple[xr.DataArray, Case]] = {
    "spread": (SETTLED, lambda x: funding.spread(x, "v00", "v02")),
    "spread, all pairs": (SETTLED, funding.spread),
    "best_pair": (SETTLED, funding.best_pair),
    "best_pair, filtered": (SETTLED, lambda x: funding.best_pair(x, oi_usd=_oi(x), min_oi_usd=0.5)),
    "dispersion": (SETTLED, funding.dispersion),
    "cumulative, settled": (SETTLED, funding.cumulative),
    "cumulative, compound": (SETTLED, lambda x: funding.cumulative(x, compound=True, gaps="skip")),
    "cumulative, sampled": (SAMPLED, funding.cumulative),
    "cumulative, skip": (SAMPLED, lambda x: funding.cumulative(x, gaps="skip")),
    "infer_interval": (SETTLED, lambda x: funding.infer_interval(x, backdate=False)),
    "zscore": (SETTLED, lambda x: funding.zscore(x, "4d")),
    "zscore, robust": (SETTLED, lambda x: funding.zscore(x, rows=12, robust=True)),
    "oi_weighted": (SETTLED, lambda x: funding.oi_weighted(x, _oi(x))),
    "forecast_history": (
        SETTLED,
        lambda x: funding.forecast_history(x, PAIRS, hold="16h", fee_bps=0.5, every="8h").drop_vars(
            "realised_net_bps"  # what came of the forecast, from later rows
        ),
    ),
    "universe": (SETTLED, lambda x: funding.universe(_oi(x), 1)),
}
WHOLE: dict[str, tuple[xr.DataArray, Case]] = {
    "infer_interval, dated back": (SETTLED, funding.infer_interval),
    "half_life": (SETTLED, lambda x: funding.half_life(x, resamples=99)),
    "half_life, sampled": (SAMPLED, lambda x: funding.half_life(x, level=None, resamples=99)),
    "half_life, ols": (SETTLED, lambda x: funding.half_life(x, method="ols")),
    "period_sums": (SETTLED, lambda x: funding.period_sums(x, "24h", min_cover=0.5)),
    "period_sums, sampled": (SAMPLED, funding.period_sums),
    "breakeven": (SETTLED, lambda x: funding.breakeven(x, "v00", "v02", fee_bps=1.0)),
    "realised_carry": (
        SETTLED,
        lambda x: funding.realised_carry(x, "v00", "v02", "2026-01-05", "2026-01-09", fee_bps=1.0),
    ),
    "forecast_carry": (SETTLED, lambda x: funding.forecast_carry(x, PAIRS, hold="16h", fee_bps=0.5)),
    "forecast_carry, sampled": (SAMPLED, lambda x: funding.forecast_carry(x, PAIRS, hold="16h", fee_bps=0.5)),
    "pick_record": (SETTLED, lambda x: funding.pick_record(x, hold="16h", fee_bps=0.5)),
    "comovement": (SETTLED, lambda x: funding.comovement(x, max_lag=1)),
    "comovement, sampled": (SAMPLED, lambda x: funding.comovement(x, method="spearman", min_periods=10)),
    "slippage_bps": (
        SETTLED,
        lambda x: funding.slippage_bps(
            _oi(x)
            .isel(time=slice(4))
            .cumsum("time")
            .rename(time="depth_bps")
            .assign_coords(depth_bps=[10.0, 25.0, 50.0, 100.0])
            .assign_attrs(units="USD"),
            1.0,
        ),
    ),
}
CASES = OVER_TIME | WHOLE
ELEMENTWISE = {"pick_summary"}  # of a record, not of a panel
ELEMENTWISE |= {"next_settlements", "portfolio"}  # of a table of payments and of forecasts, not of a panel
ELEMENTWISE |= {"with_spot"}  # adds a venue of zeros


def test_every_public_function_is_tested_here():
    assert {name.partition(",")[0] for name in CASES} | ELEMENTWISE == set(funding.__all__)


def _no_work(*_: Any, **__: Any) -> None:
    raise AssertionError("something was computed before it was asked for")


@pytest.mark.parametrize(
    "chunks", [{"time": 17}, {"exchange": 1, "symbol": 1}, {"symbol": 1, "time": 80}], ids=str
)
@pytest.mark.parametrize("name", CASES)
def test_lazy_panels_stay_lazy_and_give_the_same_numbers(name, chunks):
    panel, case = CASES[name]
    with dask.config.set(scheduler=_no_work):
        lazy = case(panel.chunk(chunks))
    assert dask.is_dask_collection(lazy)
    with dask.config.set(scheduler="synchronous"):
        assert_identical(lazy.compute(), case(panel))


@pytest.mark.parametrize("name", ["dispersion", "oi_weighted", "best_pair"])
def test_memory_layout_does_not_affect_results(name):
    """Sums over many venues would differ in the last bit where their order does."""
    panel = noisy(symbols=2, venues=43, rows=5)
    case = CASES[name][1]
    assert_identical(case(panel.copy(data=np.asfortranarray(panel.values))), case(panel))


@pytest.mark.parametrize("cut", [20, 55])
@pytest.mark.parametrize("garbage", [np.nan, 1e6], ids=["blank", "garbage"])
@pytest.mark.parametrize("name", OVER_TIME)
def test_funding_functions_have_no_look_ahead(name, garbage, cut):
    panel, case = OVER_TIME[name]
    future = xr.DataArray(np.arange(panel.sizes["time"]) >= cut, dims="time")
    replaced = (
        xr.where(future, garbage, panel, keep_attrs=False).assign_attrs(panel.attrs).transpose(*panel.dims)
    )
    assert_identical(case(replaced).isel(time=slice(cut)), case(panel).isel(time=slice(cut)))


@pytest.mark.parametrize("name", CASES)
def test_order_of_dims_and_labels_does_not_affect_results(name):
    panel, case = CASES[name]
    expected = case(panel)
    turned = case(panel.transpose("time", "symbol", "exchange").isel(exchange=[3, 1, 0, 2], symbol=[1, 0]))
    labels = {
        dim: expected[dim]
        for dim in expected.dims
        if dim in ("symbol", "exchange", "long", "short", "first", "second") and dim in turned.dims
    }
    back = turned.sel(labels).transpose(*expected.dims)
    # The dims of a Dataset may be in another order than those of its variables.
    xr.testing.assert_allclose(back, expected.transpose(*expected.dims), rtol=1e-9, atol=1e-12)
    for figure in turned.data_vars.values() if isinstance(turned, xr.Dataset) else [turned]:
        kept = [dim for dim in ("time", "symbol", "exchange") if dim in figure.dims]
        assert [dim for dim in figure.dims if dim in kept] == kept


NEEDS_SYMBOLS = {"universe"}
VENUE_BY_VENUE = [
    name
    for name in CASES
    if name.partition(",")[0] in ("cumulative", "zscore", "half_life", "infer_interval")
]


@pytest.mark.parametrize("name", [name for name in CASES if name not in NEEDS_SYMBOLS])
def test_panel_without_a_symbol_dim_is_accepted(name):
    panel, case = CASES[name]
    alone = case(panel.isel(symbol=0, drop=True))
    xr.testing.assert_allclose(alone, case(panel).isel(symbol=0, drop=True), rtol=1e-12)


@pytest.mark.parametrize("name", VENUE_BY_VENUE)
def test_single_series_is_accepted(name):
    panel, case = CASES[name]
    alone = case(panel.isel(symbol=1, exchange=2, drop=True))
    xr.testing.assert_allclose(alone, case(panel).isel(symbol=1, exchange=2, drop=True), rtol=1e-12)


ACROSS_VENUES = ["best_pair", "dispersion", "oi_weighted", "universe"]


@pytest.mark.parametrize("name", ACROSS_VENUES)
def test_masked_venue_equals_dropped_venue(name):
    panel, case = CASES[name]
    masked = case(panel.where(panel["exchange"] != "v01"))
    assert_identical(masked, case(panel.drop_sel(exchange="v01")))


KNOWN = {"cost_bps", "slippage_bps", "step_hours", "filled_hours", "off_grid", "pairs", "decisions"}
KNOWN |= {"long_coverage", "short_coverage", "coverage"}
"""What is known of a panel of nothing."""


@pytest.mark.parametrize("name", [name for name in CASES if name.partition(",")[0] != "slippage_bps"])
def test_all_nan_panel_gives_nan_without_a_warning(name):
    panel, case = CASES[name]
    result = case(xr.full_like(panel, np.nan))
    for figure_name, figure in result.items() if isinstance(result, xr.Dataset) else [(name, result)]:
        assert figure.dtype.kind != "f" or figure_name in KNOWN or figure.isnull().all(), figure_name


@pytest.mark.parametrize(
    "name", [name for name in CASES if not name.startswith(("universe", "slippage", "zscore"))]
)
def test_an_unlabelled_rate_is_rejected(name):
    panel, case = CASES[name]
    with pytest.raises(ValueError, match="the unit of panel is missing"):
        case(panel.drop_attrs().assign_attrs(kind=panel.attrs["kind"]))
    with pytest.raises(ValueError, match="panel must be in 'bps/8h', got 'percent'"):
        case(panel.assign_attrs(units="percent"))


@pytest.mark.parametrize(
    "name", ["best_pair", "dispersion", "spread, all pairs", "zscore", "zscore, robust", "oi_weighted"]
)
@pytest.mark.parametrize("dim", ["symbol", "exchange", "time"])
def test_empty_panel_gives_an_empty_or_nan_result(name, dim):
    panel, case = CASES[name]
    result = case(panel.isel({dim: slice(0)}))
    for figure in result.data_vars.values() if isinstance(result, xr.Dataset) else [result]:
        assert figure.dtype.kind != "f" or figure.isnull().all()


@pytest.mark.parametrize(
    "name", ["cumulative, settled", "cumulative, sampled", "half_life", "breakeven", "universe"]
)
def test_panel_without_rows_is_rejected_by_sums_over_time(name):
    panel, case = CASES[name]
    with pytest.raises(ValueError, match="have at least one row along time"):
        case(panel.isel(time=slice(0)))


def test_open_interest_is_read_by_its_own_label():
    oi = dollars(SETTLED)
    assert funding.oi_weighted(SETTLED, oi.drop_attrs())["rate_bps_8h"].notnull().any()
    with pytest.raises(ValueError, match="the unit of oi_usd is missing"):
        funding.oi_weighted(SETTLED, oi.drop_attrs().rename("oi"))
