"""Analysis of a panel of 43 venues, 100 symbols and 10,000 hours (0.34 GB), peer xarray with bottleneck."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

import derivdata as dd
from benchmarks.memory import peak_bytes_of
from benchmarks.row import OURS, Check, Made, Row, faster, stated, within

__all__ = ["ROWS", "best_by_xarray", "panel", "rows_of", "share_and_hhi"]

_SIZE = "43 venues × 100 symbols × 10,000 hours, 0.34 GB"
_RESHAPED = "pandas: set_index(keys).to_xarray()"
_PAIR = "xarray with bottleneck: max, min, idxmax, idxmin"
_SHARES = "xarray with bottleneck: oi / oi.sum, (share²).sum"
_CORR = "pandas: DataFrame.corr of sums that are made"
_ROLLING = "xarray with bottleneck: rolling(168) mean and std(ddof=1)"
_READ = "limit: one read of the memory (numpy max)"
_COPY = "limit: one copy of the memory"


def panel(symbols: int, hours: int, *, missing: float, log: bool = False, seed: int = 6) -> xr.DataArray:
    """A panel of the library's dims: rates, or open interest where `log`; a part of it missing.

    The figures of every twentieth symbol are the same.
    """
    rng = np.random.default_rng(seed)
    values = np.empty((symbols, 43, hours))
    drawn = rng.standard_normal((min(symbols, 20), 43, hours))
    if log:
        drawn = np.exp(drawn + 15)
    drawn[rng.random(drawn.shape) < missing] = np.nan
    for symbol, block in enumerate(values):
        block[:] = drawn[symbol % len(drawn)]
    return xr.DataArray(
        values,
        dims=("symbol", "exchange", "time"),
        coords={
            "symbol": [f"SYM{i:04d}" for i in range(symbols)],
            "exchange": [f"venue{i:02d}" for i in range(43)],
            "time": pd.date_range("2025-01-01", periods=hours, freq="h").as_unit("us").to_numpy(),
        },
        name="oi_usd" if log else "rate_bps_8h",
        attrs={"units": "USD"} if log else {"units": "bps/8h", "kind": "sampled"},
    )


def rows_of(rates: xr.DataArray) -> pd.DataFrame:
    """A table's rows of a panel, in its order, with text as categories as our tables have it."""
    places = np.meshgrid(*(np.arange(size, dtype=np.int16) for size in rates.shape), indexing="ij")
    symbol, exchange, hour = (place.reshape(-1) for place in places)
    return pd.DataFrame(
        {
            "symbol": pd.Categorical.from_codes(symbol, rates["symbol"].values),
            "exchange": pd.Categorical.from_codes(exchange, rates["exchange"].values),
            "time": pd.DatetimeIndex(rates["time"].values[hour], tz="UTC"),
            "rate_bps_8h": rates.values.reshape(-1),
        }
    )


def _from_table(_: Path) -> Made:
    rates = panel(330, 720, missing=0.0)
    rows = rows_of(rates)
    keys = ["symbol", "exchange", "time"]
    np.testing.assert_array_equal(dd.panel(rows), rates)

    def memory() -> list[Check]:
        times = peak_bytes_of("table_panel", "330") / rates.nbytes
        return [
            Check("peak memory beside the rows, of the result's", f"{times:.1f} ×", "≤ 4 ×", times <= 4.0)
        ]

    return Made(
        {OURS: lambda: dd.panel(rows), _RESHAPED: lambda: rows.set_index(keys)["rate_bps_8h"].to_xarray()},
        checks=memory,
        facts=lambda: ["values equal, one by one"],
    )


def _best_pair(_: Path) -> Made:
    rates = panel(100, 10_000, missing=0.1)
    part = rates[:5, :, :500]
    ours, theirs = dd.analysis.funding.best_pair(part), best_by_xarray(part)
    np.testing.assert_array_equal(ours["spread_bps_8h"], theirs["spread"])
    assert (ours["short"].values == theirs["short"].values).all()
    assert (ours["long"].values == theirs["long"].values).all()
    return Made(
        {
            OURS: lambda: dd.analysis.funding.best_pair(rates),
            _PAIR: lambda: best_by_xarray(rates),
            _READ: lambda: rates.values.max(),
        },
        facts=lambda: ["spreads and venues equal, one by one"],
    )


def best_by_xarray(rates: xr.DataArray) -> dict[str, Any]:
    with xr.set_options(use_bottleneck=True):
        return {
            "spread": rates.max("exchange") - rates.min("exchange"),
            "short": rates.idxmax("exchange"),
            "long": rates.idxmin("exchange"),
        }


def _shares(_: Path) -> Made:
    oi = panel(100, 10_000, missing=0.0, log=True)
    part = oi[:5, :, :500]
    worst = [
        float(abs(a - b).max()) for a, b in zip(share_and_hhi(part), shares_by_xarray(part), strict=True)
    ]
    assert max(worst) < 1e-12
    return Made(
        {
            OURS: lambda: share_and_hhi(oi),
            _SHARES: lambda: shares_by_xarray(oi),
            _COPY: oi.values.copy,
        },
        facts=lambda: [f"largest difference of a share {worst[0]:.0e}, of an HHI {worst[1]:.0e}"],
    )


def share_and_hhi(oi: xr.DataArray) -> Any:
    share = dd.analysis.oi.market_share(oi)
    return share, dd.analysis.oi.hhi(share)["hhi"]


def shares_by_xarray(oi: xr.DataArray) -> Any:
    with xr.set_options(use_bottleneck=True):
        share = oi / oi.sum("exchange")
        return share, (share**2).sum("exchange")


def _comovement(method: Literal["pearson", "spearman"], _: Path) -> Made:
    rates = panel(20, 720, missing=0.0)
    rates[:, :5, :240] = np.nan  # five venues listed later
    days = rates.values.reshape(20, 43, 90, 8).mean(axis=-1)

    def ours() -> xr.Dataset:
        return dd.analysis.funding.comovement(rates, method=method, max_filled=1.0)

    def theirs() -> list[pd.DataFrame]:
        return [pd.DataFrame(block.T).corr(method, min_periods=30) for block in days]

    correlation = ours()["correlation"].sel(lag=0).transpose("symbol", "first", "second")
    np.testing.assert_allclose(correlation, np.stack([frame.to_numpy() for frame in theirs()]), atol=1e-12)
    return Made({OURS: ours, _CORR: theirs}, facts=lambda: ["correlations equal to 1e-12, one by one"])


def _zscore(_: Path) -> Made:
    rates = panel(100, 10_000, missing=0.0)
    return Made(
        {
            OURS: lambda: _ours(rates),
            _ROLLING: lambda: zscore_by_xarray(rates),
            _COPY: rates.values.copy,
        },
        checks=lambda: _zscore_errors(rates[:1, :3, :2000]),
    )


_SORTED = "numpy: np.median of every window, twice"


def _robust(_: Path) -> Made:
    rates = panel(10, 1_000, missing=0.0)

    def ours() -> xr.DataArray:
        return dd.analysis.funding.zscore(rates, rows=168, robust=True)

    def theirs() -> np.ndarray[Any, Any]:
        return np.concatenate([robust_by_numpy(rates.values[[n]], 168) for n in range(10)])

    def equal() -> list[Check]:
        error = float(np.nanmax(np.abs(ours().values[..., 168:] - theirs())))
        return [Check("largest difference of a score", f"{error:.0e}", "≤ 1e-12", error <= 1e-12)]

    return Made({OURS: ours, _SORTED: theirs}, checks=equal)


def robust_by_numpy(rates: Any, window: int) -> Any:
    """Scores from row `window` on, each against the `window` rows before it."""
    runs = np.lib.stride_tricks.sliding_window_view(rates, window, axis=-1)[..., :-1, :]
    centre = np.median(runs, axis=-1)
    spread = np.median(np.abs(runs - centre[..., None]), axis=-1)
    return (rates[..., window:] - centre) / (1.482602218505602 * spread)


def _ours(rates: xr.DataArray) -> xr.DataArray:
    return dd.analysis.funding.zscore(rates, rows=168, lag_rows=0)


def _zscore_errors(rates: xr.DataArray) -> list[Check]:
    """Largest errors on the rates, and on the same next to a level that takes four of their digits."""
    hard = (rates + 1e4).assign_attrs(rates.attrs)
    found = []
    for name, given in (("as they are", rates), ("1e4 higher", hard)):
        exact = exact_zscore(given)
        ours, theirs = (float(abs(by(given) - exact).max()) for by in (_ours, zscore_by_xarray))
        found.append(
            Check(
                f"largest error, rates {name}", f"{ours:.0e}; xarray's {theirs:.0e}", "≤ 1e-09", ours <= 1e-9
            )
        )
    return found


def zscore_by_xarray(rates: xr.DataArray) -> xr.DataArray:
    with xr.set_options(use_bottleneck=True):
        rolling = rates.rolling(time=168)
        return (rates - rolling.mean()) / rolling.std(ddof=1)


def exact_zscore(rates: xr.DataArray) -> xr.DataArray:
    """Window by window, each from its own differences."""
    out = np.full(rates.shape, np.nan)
    for symbol, venue in itertools.product(range(rates.shape[0]), range(rates.shape[1])):
        series = rates.values[symbol, venue]
        windows = np.lib.stride_tricks.sliding_window_view(series, 168)
        centred = windows - windows.mean(axis=1, keepdims=True)
        spread = np.sqrt((centred**2).sum(axis=1) / 167)
        out[symbol, venue, 167:] = centred[:, -1] / spread
    return rates.copy(data=out)


ROWS = [
    Row(
        "table-panel",
        what="a table's column as a labelled panel (`dd.panel`)",
        given="43 venues × 330 symbols × 720 hours, 10 million rows",
        make=_from_table,
        goals={_RESHAPED: faster(2)},
        rounds=5,
    ),
    Row(
        "best-pair",
        what="best long/short pair per (symbol, time), with NaN",
        given=f"{_SIZE}, 10 % missing",
        make=_best_pair,
        goals={_PAIR: faster(6), _READ: stated()},
        rounds=3,
    ),
    Row(
        "shares",
        what="OI share and HHI",
        given=f"{_SIZE}, complete",
        make=_shares,
        goals={_SHARES: faster(4), _COPY: stated()},
        rounds=3,
    ),
    *(
        Row(
            name,
            what=f"{words} of venues, sums over 8 hours",
            given="43 venues × 20 symbols × 30 days of hours",
            make=partial(_comovement, method),
            goals={_CORR: goal},
            rounds=3,
        )
        for name, words, method, goal in (
            ("comovement", "rank correlation", "spearman", within(2)),
            ("comovement-pearson", "correlation", "pearson", stated()),
        )
    ),
    Row(
        "zscore",
        what="rolling z-score, window 168",
        given=f"{_SIZE}, complete",
        make=_zscore,
        goals={_ROLLING: within(2), _COPY: stated()},
        rounds=3,
    ),
    Row(
        "robust-zscore",
        what="rolling z-score by median and MAD, window 168",
        given="43 venues × 10 symbols × 1,000 hours, complete",
        make=_robust,
        goals={_SORTED: faster(3)},
        rounds=3,
    ),
]
