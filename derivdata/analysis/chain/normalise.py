"""One shape inside: whatever a chain comes as, one row per option with its time to expiry."""

from __future__ import annotations

import re
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
_PRICES = ("bid_coin", "bid_usd", "ask_coin", "ask_usd", "mark_coin", "mark_usd")
_FROM_PRICES = {"ask_coin", "ask_usd", "mark_coin", "mark_usd"}
_NAME = re.compile(
    r"(?P<head>.+?)[-_](?:\d{1,2}[A-Z]{3}\d{2}|\d{6}|\d{8})[-_][\d.d_]+[-_](?:C|P|CALL|PUT)(?P<tail>.*)",
    re.IGNORECASE,
)
_FIGURES = (
    *_NUMBERS,
    *_PRICES,
    "delta",
    "gamma",
    "vega",
    "theta",
    "rho",
    "year_fraction",
    "status",
    "interest_rate",
)


def option_rows(
    chain: pd.DataFrame | xr.Dataset,
    *,
    at: Any = None,
    iv_unit: str | Mapping[str, str] | None = None,
    dates: bool | None = None,
    interest_rate: float | None = None,
) -> pd.DataFrame:
    """Return one row per option in one form; `dates` says whether expiries at midnight are dates.

    ``interest_rate`` [1/year] is that of the argument, or else the row's own, or else 0.
    """
    frame = _from_surface(chain) if isinstance(chain, xr.Dataset) else chain
    frame = frame.reset_index(drop=True)
    frame.attrs = {}  # which pandas would copy, however large, with every step from here on
    missing = [name for name in _REQUIRED if name not in frame]
    if missing == ["iv"] and _FROM_PRICES & set(frame):
        frame["iv"] = np.nan  # computed from prices
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
    frame = with_rate(frame, interest_rate)
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


def with_rate(frame: pd.DataFrame, interest_rate: float | None) -> pd.DataFrame:
    """Return rows with the rate [1/year] at which premiums are discounted, where one is known."""
    if interest_rate is not None:
        return frame.assign(interest_rate=float(interest_rate))
    if "interest_rate" in frame:
        return frame.assign(interest_rate=frame["interest_rate"].astype(np.float64).fillna(0.0))
    return frame


def is_cleaned(chain: pd.DataFrame | xr.Dataset) -> bool:
    """Tell whether `clean` made this: it adds the columns ``year_fraction`` and ``status``."""
    return isinstance(chain, pd.DataFrame) and {"year_fraction", "status"} <= set(chain.columns)


def keys_of(frame: pd.DataFrame) -> list[str]:
    """List the columns that tell one chain from another."""
    return [name for name in KEYS if name in frame]


def contracts(frame: pd.DataFrame) -> pd.Series:
    """Return which contract each option is of: its name without expiry, strike and side.

    ``BTC-27MAR26-90000-C`` and ``BTC_USDC-27MAR26-90000-C`` are two contracts at one place, of two indices.
    Options without such a name are divided by the currency of their prices.
    """
    coin, usd = (frame[[n for n in _PRICES if n.endswith(unit) and n in frame]] for unit in ("coin", "usd"))
    currency = np.select([coin.notna().any(axis=1), usd.notna().any(axis=1)], ["coin", "usd"], default="")
    if "instrument_name" not in frame:
        return pd.Series(currency, index=frame.index)
    codes, names = pd.factorize(frame["instrument_name"].astype(object))
    matches = [_NAME.fullmatch(str(name)) for name in names]
    families = [None if match is None else match["head"] + match["tail"] for match in matches]
    of_row = np.array([*families, None], dtype=object)[codes]
    return pd.Series(np.where(pd.isna(of_row), currency, of_row), index=frame.index)


def places(frame: pd.DataFrame) -> list[str]:
    """List the columns that say where an option lies in its chain."""
    return [*keys_of(frame), *_PLACE]


def expiry_slices(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Return one row per chain, expiry and contract, and the row of every option.

    The rows have ``contract``, ``year_fraction``, ``open_interest`` and ``interest_rate``.
    """
    labelled = frame.assign(contract=contracts(frame))
    if "interest_rate" not in labelled:
        labelled["interest_rate"] = 0.0
    names = [*keys_of(frame), "expiry", "contract"]
    groups = labelled.groupby(names, observed=True, sort=True, dropna=False)
    table = groups.agg(
        year_fraction=("year_fraction", "first"),
        open_interest=("open_interest", "sum"),
        interest_rate=("interest_rate", "median"),
    )
    return table.reset_index(), groups.ngroup()
