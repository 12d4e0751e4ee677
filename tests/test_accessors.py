"""``.dd`` on tables, panels, fits and results: the functions themselves, with the object given first."""

from __future__ import annotations

import copy
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import derivdata as dd
from derivdata import accessors, analysis, plot
from derivdata.accessors import methods
from derivdata.analysis import chain, funding, surface

DATA = ("Panel", "pd.DataFrame", "xr.Dataset", "xr.DataArray", "Rates", "Chain")
ELSEWHERE = {
    "plot.data": "takes Axes",
    "analysis.surface.from_essvi": "takes arrays of parameters",
}


def functions() -> Iterator[tuple[str, Any]]:
    """Every public function of analysis and plot."""
    for name in analysis.__all__:
        value = getattr(analysis, name)
        if inspect.ismodule(value):
            for inner in getattr(value, "__all__", ()):
                yield f"analysis.{name}.{inner}", getattr(value, inner)
        else:
            yield f"analysis.{name}", value
    for name in plot.__all__:
        yield f"plot.{name}", getattr(plot, name)


def test_every_function_that_takes_data_first_is_a_method_of_some_kind() -> None:
    listed = {path for kind in accessors.KINDS for path in kind.functions}
    expected = set()
    for path, function in functions():
        if not inspect.isfunction(function):
            continue
        parameters = list(inspect.signature(function).parameters.values())
        if parameters and any(kind in str(parameters[0].annotation) for kind in DATA):
            expected.add(path)
    assert expected - listed - set(ELSEWHERE) == set()


def test_every_listed_function_exists() -> None:
    for kind in accessors.KINDS:
        for path in kind.functions:
            module, _, name = path.rpartition(".")
            owner = importlib.import_module(f"derivdata.{module}" if module else "derivdata")
            assert callable(getattr(owner, name)), path


def test_types_of_methods_equal_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "docs"))
    from accessor_types import FILE, types_text

    assert FILE.read_text(encoding="utf-8") == types_text(), "run python docs/accessor_types.py"


def test_of_is_the_accessor(rates: pd.DataFrame) -> None:
    panel = rates.dd.panel()
    assert accessors.of(panel).spread("okx", "bybit").identical(panel.dd.spread("okx", "bybit"))
    assert set(dir(accessors.of(rates))) == set(dir(rates.dd))
    typed = {*vars(methods.DataArrayMethods), *methods.DataArrayMethods.__annotations__}
    assert {name for name in dir(panel.dd) if not name.startswith("_")} <= typed


@pytest.fixture
def rates() -> pd.DataFrame:
    dd.connect("sample", cache="off")
    return dd.funding.history("BTC", "3d", venues=["binance", "bybit", "okx"])


@pytest.fixture
def fit() -> xr.Dataset:
    dd.connect("sample", cache="off")
    return surface.from_chain(dd.options.snapshot("BTC", "deribit"))


def test_methods_return_what_their_functions_return(rates: pd.DataFrame, fit: xr.Dataset) -> None:
    panel = rates.dd.panel()
    assert panel.identical(dd.panel(rates))
    assert panel.dd.spread("okx", "bybit").identical(funding.spread(panel, "okx", "bybit"))
    assert panel.dd.funding.spread("okx", "bybit").identical(funding.spread(panel, "okx", "bybit"))
    assert panel.dd.best_pair(fee_bps=5).identical(funding.best_pair(panel, fee_bps=5))
    pd.testing.assert_frame_equal(rates.dd.quality(), dd.quality(rates))
    options = dd.options.snapshot("BTC", "deribit")
    assert options.dd.surface.from_chain().identical(fit)
    strike, expiry = 110_000.0, fit["expiry"].values[5]
    here = fit.dd.at(strike=strike, expiry=expiry)
    assert here.identical(surface.at(fit, strike=strike, expiry=expiry))
    assert fit.dd.surface.iv.__doc__ == surface.iv.__doc__
    assert options.dd.clean().attrs["dropped"] == chain.clean(options).attrs["dropped"]


def test_results_have_the_functions_that_take_them() -> None:
    """Kinds are recognised by the names in real results, which a renamed variable changes."""
    dd.connect("sample", cache="off")
    bars = dd.panel(dd.prices.history("BTC", "9d", venues=["okx"])).dd.bars(step="1d")
    assert bars.dd.realised("5d").identical(analysis.volatility.realised(bars, "5d"))
    paid = dd.funding.settlements("BTC", "9d", venues=["binance", "okx"])
    backtest = analysis.backtest
    result = backtest.carry(paid, backtest.SpreadThreshold(0.05), backtest.Costs(fee_bps=1.0))
    pd.testing.assert_frame_equal(result.dd.trades(), backtest.trades(result))
    assert "backtest" in dir(result.dd.plot)
    assert "orderbook_depth" in dir(dd.orderbook.book("BTC", "binance").dd.plot)
    events = dd.liquidations.events(since="6h")
    assert "cascades" in dir(events.dd.clusters(gap="10s").dd)


def test_figures_are_in_plot(rates: pd.DataFrame) -> None:
    drawn = dd.plot.data(rates.dd.panel().dd.plot.heatmap())
    pd.testing.assert_frame_equal(drawn, dd.plot.data(dd.plot.funding_heatmap(dd.panel(rates))))


def test_name_in_several_modules_needs_the_module(fit: xr.Dataset) -> None:
    with pytest.raises(AttributeError, match=r"use \.dd\.smile\.iv or \.dd\.surface\.iv"):
        _ = fit.dd.iv
    assert "iv" not in dir(fit.dd)
    assert {"at", "flags", "surface", "plot"} <= set(dir(fit.dd))


def test_wrong_name_suggests_the_nearest(rates: pd.DataFrame) -> None:
    with pytest.raises(AttributeError, match=r"no function 'spred'.*did you mean 'spread'"):
        _ = rates.dd.panel().dd.spred
    with pytest.raises(
        AttributeError, match=r"'spread' .*convert the table to a panel first: .dd.panel\(\).dd.spread"
    ):
        rates.dd.spread("okx", "bybit")
    with pytest.raises(
        AttributeError,
        match=r"'butterfly_check' .*; expected the result of dd\.analysis\.surface\.from_chain",
    ):
        rates.dd.panel().dd.butterfly_check()
    with pytest.raises(AttributeError, match="plot has no function 'smil'"):
        _ = dd.options.snapshot("BTC", "deribit").dd.plot.smil


def test_completion_lists_methods_of_the_object() -> None:
    book = pd.DataFrame({"side": ["bid"], "level": [1], "price_usd": [1.0], "size": [2.0]})
    assert "orderbook_depth" in dir(book.dd.plot)
    assert "from_chain" not in dir(book.dd)
    legs = pd.DataFrame({"quantity": [1.0]})
    assert {"greeks", "scenarios"} <= set(dir(legs.dd))


def test_signatures_omit_the_object(rates: pd.DataFrame) -> None:
    method = inspect.signature(rates.dd.panel().dd.spread)
    assert list(method.parameters) == list(inspect.signature(funding.spread).parameters)[1:]


@pytest.mark.parametrize(
    "imports",
    [
        "import derivdata; import pandas as pd, xarray as xr",
        "import pandas as pd, xarray as xr; import derivdata",
    ],
)
def test_either_order_of_imports_registers_the_accessors(imports: str) -> None:
    code = f"{imports}\nassert 'xarray' in derivdata._sys.modules\n"
    code += "print(dir(pd.DataFrame().dd), xr.Dataset().dd.flags.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "flags"


def test_importing_derivdata_imports_neither_pandas_nor_xarray() -> None:
    code = "import derivdata, sys; print('pandas' in sys.modules, 'xarray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_flags_have_one_boolean_per_status() -> None:
    status = xr.DataArray([0, 5, 4], dims="expiry", attrs={"flag_masks": [1, 2, 4], "flag_meanings": "a b c"})
    decoded = analysis.flags(xr.Dataset({"status": status}))
    measured = xr.zeros_like(status, dtype=float).drop_attrs().assign_coords(status=status)
    assert set(analysis.flags(measured)) == set(decoded), "the coordinate of a DataArray"
    assert list(decoded) == ["a", "c"]
    assert decoded["a"].values.tolist() == [False, True, False]
    assert decoded["c"].values.tolist() == [False, True, True]
    with pytest.raises(ValueError, match="data does not have the variable 'state'"):
        analysis.flags(xr.Dataset({"status": status}), "state")
    with pytest.raises(
        ValueError, match="status must be a status with flag_masks and flag_meanings in attrs"
    ):
        analysis.flags(status.drop_attrs())


def net_by_pairs(rates: dict[str, float], fees: dict[str, float], periods: float) -> tuple[str, str, float]:
    """The pair with the largest spread after fees, by a loop over pairs."""
    best = ("", "", -np.inf)
    for long in sorted(rates):
        for short in sorted(rates):
            cost = 2.0 * (fees[long] + fees[short]) / periods
            net = rates[short] - rates[long] - cost
            if long != short and net > best[2] + 1e-12:
                best = (long, short, net)
    return best


@given(
    values=st.lists(st.decimals(-20, 20, places=6).map(float), min_size=2, max_size=6),
    fees=st.lists(st.floats(0.0, 10.0), min_size=6, max_size=6),
    days=st.sampled_from([1, 7, 30]),
)
def test_best_pair_after_fees_equals_a_loop_over_pairs(
    values: list[float], fees: list[float], days: int
) -> None:
    venues = [f"v{number}" for number in range(len(values))]
    panel = xr.DataArray([values], {"exchange": venues}, ("time", "exchange"), attrs={"units": "bps/8h"})
    by_venue = dict(zip(venues, fees, strict=False))
    best = funding.best_pair(panel, fee_bps=by_venue, hold=f"{days}d").isel(time=0)
    by_name = dict(zip(venues, values, strict=True))
    long, short, net = net_by_pairs(by_name, by_venue, 3.0 * days)
    if by_name[short] <= by_name[long]:
        assert best["long"].item() == best["short"].item() == ""
        assert np.isnan(best["net_bps_8h"].item())
        return
    assert best["net_bps_8h"].item() == pytest.approx(net, abs=1e-9)
    gross = by_name[best["short"].item()] - by_name[best["long"].item()]
    assert best["spread_bps_8h"].item() == pytest.approx(gross)


def test_fees_are_spread_over_the_holding_time() -> None:
    """A spread of 2.5 bps/8h over 16 days; four trades of 5 bps cost 20 bps, 20 / 48 per 8 hours."""
    rates = xr.DataArray(
        [[1.0, -0.5, 2.0]], {"exchange": ["a", "b", "c"]}, ("time", "exchange"), attrs={"units": "bps/8h"}
    )
    best = funding.best_pair(rates, fee_bps=5.0, hold="16d").isel(time=0)
    assert (best["long"].item(), best["short"].item()) == ("b", "c")
    assert best["net_bps_8h"].item() == pytest.approx(2.5 - 20.0 / 48.0)
    dear = funding.best_pair(rates, fee_bps={"a": 0.0, "b": 0.0, "c": 100.0}, hold="16d").isel(time=0)
    assert (dear["long"].item(), dear["short"].item()) == ("b", "a")  # 1.5, against 2.5 - 200 / 48
    assert dear["net_bps_8h"].item() == 1.5
    missing = rates.where(rates["exchange"] != "c")
    alone = funding.best_pair(missing.where(rates["exchange"] != "b"), fee_bps=5.0).isel(time=0)
    assert np.isnan(alone["spread_bps_8h"].item())
    assert np.isnan(alone["net_bps_8h"].item())
    assert alone["venues"].item() == 1


@pytest.fixture
def jedi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return jedi with a cache of its own: by default it writes into HOME, which not every user has."""
    module = pytest.importorskip("jedi")
    monkeypatch.setattr(module.settings, "cache_directory", str(tmp_path))
    return module


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("panel.dd.spr", "spread"),
        ("panel.dd.best", "best_pair"),
        ("panel.dd.market", "market_share"),
        ("panel.dd.plot.heat", "heatmap"),
        ("fit.dd.a", "at"),
        ("fit.dd.fl", "flags"),
        ("frame.dd.pan", "panel"),
        ("frame.dd.qua", "quality"),
        ("chain.dd.surface.from", "from_chain"),
    ],
)
def test_names_are_completed(jedi: Any, text: str, name: str) -> None:
    """With jedi, as IPython and Jupyter complete them."""
    objects = {
        "panel": xr.DataArray([[1.0]], dims=("exchange", "time")),
        "fit": xr.Dataset({"method": 0, "year_fraction": 1.0, "k_min": -1.0}),
        "frame": pd.DataFrame({"symbol": ["BTC"]}),
        "chain": pd.DataFrame({"strike": [1.0], "side": ["call"], "expiry": [pd.Timestamp("2026-06-30")]}),
    }
    completions = [completion.name for completion in jedi.Interpreter(text, [objects]).complete()]
    assert name in completions


def test_a_completed_function_shows_its_other_arguments(jedi: Any) -> None:
    panel = xr.DataArray([[1.0]], dims=("exchange", "time"))
    signature = jedi.Interpreter("panel.dd.spread(", [{"panel": panel}]).get_signatures()[0]
    assert [parameter.name for parameter in signature.params] == ["long", "short"]


def test_copied_object_has_its_own_accessor(rates: pd.DataFrame) -> None:
    for accessor in (rates.dd, rates.dd.plot):
        for twin in (copy.copy(accessor), copy.deepcopy(accessor)):
            assert dir(twin) == dir(accessor)
            with pytest.raises(AttributeError, match="has no attribute '_private'"):
                _ = twin._private


def test_tenor_text_selects_from_fits_and_results(fit: xr.Dataset) -> None:
    fixed = surface.constant_maturity(fit, tenors=("7d", "30d"), points=("atm", "rr25"))
    assert fixed.dd.at(tenor="30d").equals(fixed.sel(tenor=30.0))
    both = fixed.dd.at(tenor=["30d", pd.Timedelta("7D")])
    assert both["tenor"].values.tolist() == [30.0, 7.0]
    # At the money of the forward, both evaluate the same smile.
    assert fit.dd.at(tenor="30d")["iv"].item() == pytest.approx(fixed["atm"].sel(tenor=30).item(), rel=1e-14)
    assert fit.dd.at(tenor=["7d", "30d"])["iv"].dims == ("maturity",)
    by_years = surface.at(fit, 30 / 365, strike=120_000.0)
    assert fit.dd.at(tenor="30d", strike=120_000.0).equals(by_years)
    for target, arguments, message in (
        (fixed, {"tenor": "31d"}, "a tenor of 31 days; available: 7, 30"),
        (fixed, {"expiry": "2026-07-31"}, "the result has tenors: pass tenor='30d' instead of an expiry"),
        (fit, {}, "expiry= and tenor= exclude each other"),
        (fit, {"expiry": "2026-07-31", "tenor": "30d"}, "expiry= and tenor= exclude each other"),
    ):
        with pytest.raises(ValueError, match=message):
            target.dd.at(**arguments)
