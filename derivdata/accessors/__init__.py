"""Accessor ``.dd``: functions of tables, panels, surfaces and results as methods of these objects.

`KINDS` lists the functions of each kind of object. Each is a function of `derivdata.analysis`,
`derivdata.plot` or `derivdata`, called with the object as its first argument. The other arguments, the errors
and the result are those of the function.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from derivdata.support.text import did_you_mean

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from derivdata.accessors.methods import DataArrayMethods, DataFrameMethods, DatasetMethods

__all__ = ["KINDS", "PLOT_ALIASES", "Accessor", "Family", "Kind", "functions_of", "of", "register"]

PLOT_ALIASES = {"heatmap": "funding_heatmap"}
"""Shorter names in ``.dd.plot``."""
_ALIASES = {"plot": PLOT_ALIASES}


class Kind(NamedTuple):
    """A kind of object and the functions that are its methods in ``.dd``.

    An object is of this kind if its class has the name `type` and it has the columns or variables in `needs`.
    `functions` are paths such as ``analysis.funding.spread``.
    """

    name: str
    type: str
    needs: tuple[str, ...]
    functions: tuple[str, ...]
    source: str = ""
    """Function that returns such an object."""


KINDS = (
    Kind(
        "panel",
        "DataArray",
        (),
        (
            "provenance",
            "card",
            "analysis.align.align",
            "analysis.backtest.carry",
            "analysis.backtest.sweep",
            "analysis.basis.against",
            "analysis.delivery.calibration",
            "analysis.flags",
            "analysis.funding.best_pair",
            "analysis.funding.breakeven",
            "analysis.funding.comovement",
            "analysis.funding.cumulative",
            "analysis.funding.dispersion",
            "analysis.funding.forecast_carry",
            "analysis.funding.forecast_history",
            "analysis.funding.half_life",
            "analysis.funding.infer_interval",
            "analysis.funding.oi_weighted",
            "analysis.funding.period_sums",
            "analysis.funding.pick_record",
            "analysis.funding.realised_carry",
            "analysis.funding.slippage_bps",
            "analysis.funding.spread",
            "analysis.funding.universe",
            "analysis.funding.with_spot",
            "analysis.funding.zscore",
            "analysis.futures.with_leg",
            "analysis.liquidations.branching_ratio",
            "analysis.oi.by_kind",
            "analysis.oi.hhi",
            "analysis.oi.in_coins",
            "analysis.oi.market_share",
            "analysis.oi.migration",
            "analysis.oi.oi_to_volume",
            "analysis.oi.share_trend",
            "analysis.percentile",
            "analysis.rank",
            "analysis.taker.cumulative_delta",
            "analysis.taker.imbalance",
            "analysis.variance.cboe",
            "analysis.volatility.bars",
            "analysis.volatility.bipower",
            "analysis.volatility.implied_minus_realised",
            "plot.calibration",
            "plot.cumulative_funding",
            "plot.funding_heatmap",
            "plot.funding_history",
            "plot.open_interest",
            "plot.orderbook_depth",
            "plot.positioning",
            "plot.taker_volume",
            "plot.volatility",
        ),
    ),
    Kind("result", "Dataset", (), ("provenance", "card", "analysis.flags", "plot.card")),
    Kind(
        "fit",
        "Dataset",
        ("method", "year_fraction", "k_min"),
        (
            "analysis.business_time.fit",
            "analysis.delivery.probabilities",
            "analysis.risk_neutral.density",
            "analysis.risk_neutral.moments",
            "analysis.risk_neutral.quantile",
            "analysis.smile.butterfly_check",
            "analysis.smile.iv",
            "analysis.smile.total_variance",
            "analysis.surface.at",
            "analysis.surface.calendar_check",
            "analysis.surface.constant_maturity",
            "analysis.surface.forward_variance",
            "analysis.surface.iv",
            "analysis.surface.local_volatility",
            "analysis.surface.term_structure",
            "analysis.variance.model_free",
            "plot.implied_density",
            "plot.surface",
            "plot.term_structure",
            "plot.venue_difference",
            "plot.volatility",
        ),
        "analysis.surface.from_chain",
    ),
    Kind(
        "chain",
        "Dataset",
        ("strike", "expiry"),
        (
            "analysis.chain.arbitrage",
            "analysis.chain.clean",
            "analysis.chain.executable",
            "analysis.chain.forwards",
            "analysis.chain.greeks",
            "analysis.exposure.gamma_exposure",
            "analysis.exposure.history",
            "analysis.exposure.max_pain",
            "analysis.exposure.open_interest",
            "analysis.exposure.put_call_ratio",
            "analysis.exposure.zero_gamma",
            "analysis.surface.from_chain",
            "analysis.surface.history",
            "analysis.variance.model_free",
            "plot.implied_density",
            "plot.smile",
            "plot.strikes",
            "plot.surface",
            "plot.term_structure",
            "plot.venue_difference",
        ),
    ),
    Kind("tenors", "Dataset", ("tenor",), ("analysis.surface.at",)),
    Kind("forwards", "Dataset", ("forward",), ("analysis.chain.basis",)),
    Kind(
        "backtest",
        "Dataset",
        ("equity_usd",),
        ("analysis.backtest.capacity", "analysis.backtest.trades", "plot.backtest"),
        "analysis.backtest.carry",
    ),
    Kind(
        "forecast",
        "Dataset",
        ("net_bps",),
        ("analysis.carry_table", "analysis.funding.portfolio", "plot.carry"),
        "analysis.funding.forecast_carry",
    ),
    Kind(
        "picks",
        "Dataset",
        ("predicted_net_bps",),
        ("analysis.funding.pick_summary",),
        "analysis.funding.pick_record",
    ),
    Kind(
        "futures curve",
        "Dataset",
        ("basis_apr",),
        ("analysis.futures.cash_and_carry", "analysis.futures.constant_maturity", "plot.term_structure"),
        "analysis.futures.term_structure",
    ),
    Kind(
        "variance",
        "Dataset",
        ("total_variance",),
        ("analysis.variance.volatility_index",),
        "analysis.variance.model_free",
    ),
    Kind(
        "bars",
        "Dataset",
        ("open_usd", "close_usd"),
        ("analysis.volatility.cone", "analysis.volatility.realised"),
        "analysis.volatility.bars",
    ),
    Kind("attribution", "Dataset", ("contribution",), ("plot.pnl_attribution",)),
    Kind("open interest", "Dataset", ("share",), ("plot.open_interest",)),
    Kind(
        "table",
        "DataFrame",
        (),
        ("panel", "gaps", "quality", "provenance", "card", "analysis.align.asof_join"),
    ),
    Kind(
        "rates",
        "DataFrame",
        ("rate_bps_8h",),
        ("plot.cumulative_funding", "plot.funding_heatmap", "plot.funding_history"),
    ),
    Kind("settlements", "DataFrame", ("interval_hours", "time"), ("analysis.funding.next_settlements",)),
    Kind("open interest table", "DataFrame", ("oi_usd",), ("plot.open_interest",)),
    Kind("long/short table", "DataFrame", ("long_short_ratio",), ("plot.positioning",)),
    Kind(
        "session calendar",
        "DataFrame",
        ("session", "start", "end"),
        ("analysis.sessions.by_session", "analysis.sessions.closures"),
    ),
    Kind(
        "order book table",
        "DataFrame",
        ("side", "level", "price_usd", "size"),
        ("analysis.depth.by_band", "analysis.depth.market_order_cost", "plot.orderbook_depth"),
    ),
    Kind("taker table", "DataFrame", ("buy_usd", "sell_usd"), ("plot.taker_volume",)),
    Kind("depth", "DataFrame", ("depth_bps",), ("plot.orderbook_depth",)),
    Kind(
        "futures",
        "DataFrame",
        ("expiry", "time"),
        ("analysis.futures.roll", "analysis.futures.term_structure"),
    ),
    Kind(
        "liquidations",
        "DataFrame",
        ("value_usd", "side"),
        (
            "analysis.liquidations.bucket",
            "analysis.liquidations.clusters",
            "analysis.liquidations.observed",
            "plot.liquidations",
        ),
    ),
    Kind("liquidation totals", "DataFrame", ("long_usd", "short_usd"), ("plot.liquidations",)),
    Kind(
        "clusters",
        "DataFrame",
        ("peak_10s_usd",),
        ("analysis.liquidations.cascades",),
        "analysis.liquidations.clusters",
    ),
    Kind(
        "options",
        "DataFrame",
        ("strike", "side", "expiry"),
        (
            "analysis.backtest.options",
            "analysis.chain.clean",
            "analysis.chain.executable",
            "analysis.chain.forwards",
            "analysis.chain.greeks",
            "analysis.chain.smiles",
            "analysis.exposure.gamma_exposure",
            "analysis.exposure.history",
            "analysis.exposure.max_pain",
            "analysis.exposure.open_interest",
            "analysis.exposure.put_call_ratio",
            "analysis.exposure.zero_gamma",
            "analysis.surface.from_chain",
            "analysis.surface.history",
            "plot.implied_density",
            "plot.smile",
            "plot.strikes",
            "plot.surface",
            "plot.term_structure",
            "plot.venue_difference",
        ),
    ),
    Kind(
        "option trades",
        "DataFrame",
        ("strike", "taker_side"),
        ("analysis.option_trades.chain", "analysis.option_trades.flow", "plot.option_flow"),
    ),
    Kind(
        "legs",
        "DataFrame",
        ("quantity",),
        (
            "analysis.position.attribution",
            "analysis.position.greeks",
            "analysis.position.scenarios",
            "analysis.position.vega_buckets",
        ),
    ),
    Kind("backtest sweep", "DataFrame", ("sharpe",), ("plot.backtest",)),
)


class Family:
    """The functions of one module that take an object first, such as ``chain.dd.surface``."""

    def __init__(self, data: Any, name: str, functions: dict[str, str]) -> None:
        self._data = data
        self._name = name
        self._functions = functions

    def __getattr__(self, name: str) -> Callable[..., Any]:
        _reject_private(self, name)
        name = _ALIASES.get(self._name, {}).get(name, name)
        if name not in self._functions:
            advice = _elsewhere(name, self._data) or did_you_mean(
                name, self._functions, _listed(self._functions)
            )
            raise AttributeError(f"{self._name} has no function {name!r} for this object{advice}")
        return _bound(self._functions[name], self._data)

    def __dir__(self) -> list[str]:
        aliases = _ALIASES.get(self._name, {})
        return sorted(
            [*self._functions, *(alias for alias, name in aliases.items() if name in self._functions)]
        )

    def __repr__(self) -> str:
        return f"<.dd.{self._name}: {', '.join(sorted(self._functions))}>"


class Accessor:
    """The functions of derivdata that take an object first, as methods: ``panel.dd.spread("okx", "bybit")``.

    A function whose name exists in several modules is called with its module: ``fit.dd.surface.iv(...)``.
    Figures are in ``plot``: ``panel.dd.plot.funding_heatmap()``.
    """

    def __init__(self, data: Any) -> None:
        self._data = data

    def __getattr__(self, name: str) -> Any:
        _reject_private(self, name)
        families, flat = functions_of(self._data)
        if name in flat:
            return _bound(flat[name], self._data)
        if name in families:
            return Family(self._data, name, families[name])
        owners = [family for family, functions in families.items() if name in functions and family != "plot"]
        if owners:
            several = " or ".join(f".dd.{family}.{name}" for family in owners)
            raise AttributeError(f"{name!r} exists in several modules: use {several}")
        available = {*flat, *families}
        advice = _elsewhere(name, self._data) or did_you_mean(name, available, _listed(available))
        raise AttributeError(
            f"no function {name!r} takes a {type(self._data).__name__} as its first argument{advice}"
        )

    def __dir__(self) -> list[str]:
        families, flat = functions_of(self._data)
        return sorted({*families, *flat})

    def __repr__(self) -> str:
        return f"<.dd: {', '.join(dir(self))}>"


def _reject_private(owner: Any, name: str) -> None:
    """Raise AttributeError for private names, which copy and pickle read before ``_data`` is set."""
    if name.startswith("_"):
        raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}")


def _elsewhere(name: str, data: Any) -> str:
    """Return a hint with the objects that a function accepts; empty text for an unknown function."""
    owners = [kind for kind in KINDS if any(path.rpartition(".")[2] == name for path in kind.functions)]
    if not owners:
        return ""
    is_table = type(data).__name__ == "DataFrame"
    if is_table and any(kind.name == "panel" for kind in owners):
        return f"; convert the table to a panel first: .dd.panel().dd.{name}(...)"
    kinds = []
    for kind in owners:
        if kind.source:
            kinds.append(f"the result of dd.{kind.source}")
        elif kind.needs:
            kinds.append(f"a {kind.type} with {', '.join(kind.needs)}")
        else:
            kinds.append(f"a {kind.type}")
    return f"; expected {' or '.join(dict.fromkeys(kinds))}"


def functions_of(data: Any) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Return the functions for an object by family and name, and the same by name where it is unique."""
    # 1. Collect the functions of all kinds to which the object belongs, in order and without duplicates.
    names = set(map(str, getattr(data, "columns", ()))) or set(map(str, getattr(data, "variables", ())))
    # A table may have its key columns as index.
    if type(data).__name__ == "DataFrame":
        names |= set(map(str, filter(None, data.index.names)))
    functions: dict[str, None] = {}
    for kind in KINDS:
        if kind.type == type(data).__name__ and names.issuperset(kind.needs):
            functions |= dict.fromkeys(kind.functions)
    # 2. By family.
    families: dict[str, dict[str, str]] = {}
    for path in functions:
        module, _, name = path.rpartition(".")
        family = module.rpartition(".")[2]
        if family not in ("", "analysis"):
            families.setdefault(family, {})[name] = path
    # 3. Functions with a unique name. Figures are excluded, because some have the name of an analysis, such
    # as `open_interest`, and would make it ambiguous.
    name_of = {path: path.rpartition(".")[2] for path in functions if not path.startswith("plot.")}
    counts = Counter(name_of.values())
    return families, {name: path for path, name in name_of.items() if counts[name] == 1}


@overload
def of(data: xr.DataArray) -> DataArrayMethods: ...
@overload
def of(data: xr.Dataset) -> DatasetMethods: ...
@overload
def of(data: pd.DataFrame) -> DataFrameMethods: ...
def of(data: Any) -> Any:
    """Return ``data.dd`` with its type, because mypy and pyright treat ``data.dd`` as `Any`."""
    return Accessor(data)


def register(library: str) -> None:
    """Register ``.dd`` with an imported library, pandas or xarray."""
    if library == "pandas":
        from pandas.api.extensions import register_dataframe_accessor

        register_dataframe_accessor("dd")(Accessor)
    else:
        import xarray as xr

        for register_accessor in (xr.register_dataarray_accessor, xr.register_dataset_accessor):
            decorate: Any = register_accessor
            decorate("dd")(Accessor)


def _bound(path: str, data: Any) -> Callable[..., Any]:
    """Return a function with its first argument bound; name, docstring and other parameters stay."""
    module, _, name = path.rpartition(".")
    owner = importlib.import_module(f"derivdata.{module}" if module else "derivdata")
    function = getattr(owner, name)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(data, *args, **kwargs)

    signature = inspect.signature(function)
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=list(signature.parameters.values())[1:]
    )
    return call


def _listed(names: Any) -> str:
    return f"; available: {', '.join(sorted(names))}"
