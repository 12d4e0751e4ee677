"""One shape inside: whatever a chain comes as, one row per option with its time to expiry."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.inputs import require_columns, require_decimal_volatility
from derivdata.analysis.status import Status
from derivdata.support import times
from derivdata.tables.chain_snapshots import snapshots
from derivdata.tables.expiries import expiries

KEYS = ("symbol", "exchange", "time")
_PLACE = ("expiry", "strike", "side")
_REQUIRED = (*_PLACE, "iv")
_NUMBERS = ("strike", "iv", "underlying_price", "open_interest")
_ASKS = {"ask_coin", "ask_usd"}
_PRICES = ("bid_coin", "bid_usd", "mark_coin", "mark_usd", *_ASKS)
_FIGURES = (*_NUMBERS, *_PRICES, "delta", "gamma", "vega", "theta", "rho", "year_fraction", "status")


def option_rows(
    chain: pd.DataFrame | xr.Dataset,
    *,
    at: Any = None,
    iv_unit: str | Mapping[str, str] | None = None,
    dates: bool | None = None,
) -> pd.DataFrame:
    """Return one row per option in one form; `dates` says whether expiries at midnight are dates."""
    frame = _from_surface(chain) if isinstance(chain, xr.Dataset) else chain
    frame = frame.reset_index(drop=True)
    frame.attrs = {}  # which pandas would copy, however large, with every step from here on
    missing = [name for name in _REQUIRED if name not in frame]
    if missing == ["iv"] and _ASKS & set(frame):
        frame["iv"] = np.nan  # `clean` takes it from bid and ask
    elif missing:
        raise ValueError(f"the chain has no {', '.join(missing)}: it must be the table options_snapshot")
    for name in frame.columns.intersection(_PRICES):
        with suppress(TypeError, ValueError):  # numbers as objects, and None where a venue quotes none
            frame[name] = frame[name].astype(np.float64)
    require_columns(frame, "chain", [name for name in _FIGURES if name in frame])
    unknown = frame["side"][~frame["side"].isin(("call", "put")) & frame["side"].notna()]
    if len(unknown):
        raise ValueError(f"the side of a row of chain is {unknown.iloc[0]!r}, neither 'call' nor 'put'")
    for name in _NUMBERS:
        frame[name] = frame[name].to_numpy(dtype=np.float64, na_value=np.nan) if name in frame else np.nan
    frame["iv"] = _decimal(frame, iv_unit)
    if "year_fraction" not in frame:
        frame = _timed(frame, at, dates)
    if "status" not in frame:
        frame["status"] = np.int32(0)
    return frame.reset_index(drop=True)


def _from_surface(surface: xr.Dataset) -> pd.DataFrame:
    missing = [dim for dim in _PLACE if dim not in surface.dims]
    if missing:
        raise ValueError(
            f"the chain has no dim {', '.join(missing)}: as a Dataset it must be made by dd.options.surface"
        )
    if "time" in surface.dims and "time" not in surface.get("year_fraction", surface["time"]).dims:
        surface = surface.drop_vars("year_fraction")
    frame = surface.to_dataframe().reset_index()
    there = frame["observed"] if "observed" in frame else frame["iv"].notna()
    frame = frame[there].drop(columns="observed", errors="ignore")
    if "time" not in frame and "as_of" in frame:
        frame = frame.rename(columns={"as_of": "time"})
    for name in ("time", "expiry"):
        if name in frame:
            frame[name] = frame[name].dt.tz_localize("UTC")
    return frame


def _decimal(frame: pd.DataFrame, unit: str | Mapping[str, str] | None) -> pd.Series:
    iv = frame["iv"]
    if isinstance(unit, str) or (unit is None and is_cleaned(frame)):
        return iv / 100.0 if unit == "percent" else iv
    if unit is not None:
        for name, each in unit.items():
            if each not in ("decimal", "percent"):
                raise ValueError(f"iv_unit of {name!r} is {each!r}, neither 'decimal' nor 'percent'")
        percent = [name for name, each in unit.items() if each == "percent"]
        venues = set(frame["exchange"].astype(object)) if "exchange" in frame else set()
        if strange := sorted(set(unit) - venues):
            raise ValueError(f"iv_unit names {', '.join(strange)}, which the chain does not have")
        iv = iv.mask(frame["exchange"].isin(percent), iv / 100.0) if venues else iv
    venue = [name for name in ("symbol", "exchange") if name in frame]
    # Each venue by itself: one that writes percent must not hide among others.
    keys = [frame[name] for name in venue] or [pd.Series("", index=frame.index)]
    for labels, group in iv.groupby(keys, observed=True):
        if unit is not None and labels[-1] in unit:
            continue
        at = f"{{{labels[-1]!r}: 'percent'}}" if "exchange" in venue else "'percent'"
        require_decimal_volatility(group, f"pass the chain through chain.clean(..., iv_unit={at}) first")
    return iv


def _timed(frame: pd.DataFrame, at: Any, dates: bool | None) -> pd.DataFrame:
    if at is not None:
        frame["time"] = times.instant(at, "at")
    if "time" not in frame:
        raise ValueError("the chain says no time: pass at=, the instant of the quotes")
    frame["time"] = instants(frame["time"], "the column 'time' of chain")
    frame["expiry"], dated = expiries(frame["expiry"], "the column 'expiry' of chain", dates=dates)
    frame = snapshots(frame)
    dated = dated[frame.index]
    frame["status"] = np.where(dated, np.int32(Status.EXPIRY_TIME_ASSUMED), np.int32(0))
    frame["year_fraction"] = times.year_fraction(frame["time"], frame["expiry"])
    return frame


def instants(column: pd.Series, called: str) -> pd.Series:
    """Read a column of instants as UTC; each text is read by itself."""
    text = column.dtype.kind == "O"
    try:
        return pd.to_datetime(column, utc=True, format="mixed" if text else None).dt.as_unit("us")
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{called} does not hold instants") from None


def is_cleaned(chain: pd.DataFrame | xr.Dataset) -> bool:
    """Tell whether `clean` made this: it adds the columns ``year_fraction`` and ``status``."""
    return isinstance(chain, pd.DataFrame) and {"year_fraction", "status"} <= set(chain.columns)


def keys_of(frame: pd.DataFrame) -> list[str]:
    """List the columns that tell one chain from another."""
    return [name for name in KEYS if name in frame]


def expiry_slices(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Return one row per chain and expiry with its ``year_fraction``; and the place in it of every option."""
    names = [*keys_of(frame), "expiry"]
    groups = frame.groupby(names, observed=True, sort=True, dropna=False)
    return groups["year_fraction"].first().reset_index(), groups.ngroup()
