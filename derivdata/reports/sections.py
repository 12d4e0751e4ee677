"""The report's sections: each asks for its data, draws it, and says what the source lacks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import api, plot, tables, times, units
from derivdata.analysis import oi as oi_analysis
from derivdata.analysis.funding.spreads import pair_spreads
from derivdata.errors import BadRequest, NotFound, TierError
from derivdata.fetch import funding, liquidations, oi, options
from derivdata.plot.options import at_the_money
from derivdata.reports.page import Section

_PAIRS = 10
_EVENTS = 20_000
_LACKS = (BadRequest, NotFound, TierError)
"""What says that a source has not got something; every other error ends the report."""


class Asked(NamedTuple):
    """What the report is about."""

    symbols: tuple[str, ...]
    window: times.Window


class Seen(NamedTuple):
    """What an answered request left behind: where it stands in the provenance."""

    what: str
    said: dict[str, object]


def funding_section(asked: Asked, seen: list[Seen]) -> Section:
    """Funding per venue, and the widest spreads between venues."""
    section = Section("Funding")
    section.text(
        "Rates are sampled and stated in basis points per 8 hours whatever the venue's interval; longs pay "
        "shorts when positive. They are informational, not for P&L or production trading."
    )
    rates = _got(section, seen, "funding history", partial(funding.history, asked.symbols, *asked.window))
    if rates is None:
        return section
    panel = tables.panel(rates)
    for symbol in panel["symbol"].values:
        section.heading(str(symbol))
        section.figure(plot.funding_history, rates, f"{symbol} funding", symbol=str(symbol))
        section.folded(f"Every venue: {symbol}", _venues(panel.sel(symbol=symbol)))
    spreads = _widest(panel)
    spreads.attrs = rates.attrs
    section.heading("Widest cross-venue spreads of the window")
    section.text(
        "Mean over the window of the short venue's rate minus the long venue's, over the hours at which both "
        "have one. The annual figure is gross: it leaves out four legs of fees, slippage and the risk that "
        "the spread turns."
    )
    if len(spreads):
        section.figure(plot.funding_spreads, spreads, "widest funding spreads")
        shown = spreads.assign(gross_apr_pct=100 * units.apr_from_bps_8h(spreads["spread_bps_8h"]))
        section.table(
            shown,
            formats={"spread_bps_8h": ".3f", "hours_positive": ".0%", "gross_apr_pct": ".1f", "hours": ",d"},
        )
    return section


def oi_section(asked: Asked, seen: list[Seen]) -> Section:
    """Who holds the open interest."""
    section = Section("Open interest")
    for symbol in asked.symbols:
        held = _got(section, seen, f"open interest of {symbol}", partial(oi.history, symbol, *asked.window))
        if held is None:
            continue
        section.figure(plot.oi_share, held, f"{symbol} open interest shares")
        section.folded(f"Every venue: {symbol}", _holders(tables.panel(held, "oi_usd").isel(symbol=0)))
    summary = _got(section, seen, "open interest by venue", oi.exchanges)
    if summary is not None:
        section.folded(
            "All symbols, by venue",
            summary.sort_values("total_oi_usd", ascending=False)[
                ["exchange", "total_oi_usd", "market_share", "symbol_count", "top_symbol"]
            ],
        )
    return section


def liquidations_section(asked: Asked, seen: list[Seen]) -> Section:
    """Liquidations by side."""
    section = Section("Liquidations")
    start = max(asked.window.start, asked.window.end - pd.Timedelta(7, "D"))
    events = _got(
        section,
        seen,
        "liquidations",
        partial(liquidations.events, since=start, limit=_EVENTS, symbols=asked.symbols),
    )
    if events is None:
        return section
    section.text(
        f"{len(events):,} orders from {events['time'].iloc[0]:%Y-%m-%d %H:%M} to "
        f"{events['time'].iloc[-1]:%Y-%m-%d %H:%M} UTC; the side is the one that was liquidated. Feeds are "
        "throttled on some venues, so that levels do not compare across venues."
    )
    section.figure(plot.liquidations, events, "liquidations by side", freq="4h")
    sums = events.pivot_table(
        index="exchange", columns="side", values="value_usd", aggfunc="sum", observed=True, fill_value=0.0
    )
    section.folded("By venue", sums.rename(columns=lambda s: f"{s}_usd").reset_index())
    return section


def options_section(asked: Asked, seen: list[Seen]) -> Section:
    """Smiles and the term structure of at-the-money volatility."""
    section = Section("Options")
    for symbol in asked.symbols:
        surface = _first_surface(section, seen, symbol)
        if surface is None:
            continue
        section.figure(plot.smile, surface, f"{symbol} smiles")
        section.figure(plot.term_structure, surface, f"{symbol} term structure")
        section.table(
            at_the_money(surface), formats={"days": ".2f", "forward": ",.2f", "iv": ".4f", "quotes": "d"}
        )
    return section


def _got(
    section: Section, seen: list[Seen], what: str, fetch: Callable[[], pd.DataFrame]
) -> pd.DataFrame | None:
    """The table, or None with a line in the report that says why there is none."""
    try:
        frame = fetch()
    except _LACKS as problem:
        section.text(f"No {what}: {problem}", "lack")
        return None
    seen.append(Seen(what, tables.provenance(frame)))
    if frame.empty:
        section.text(f"The source has no {what} for this window.", "lack")
        return None
    return frame


def _first_surface(section: Section, seen: list[Seen], symbol: str) -> xr.Dataset | None:
    """The surface of the first venue that has one; why the others have none is said only if none has."""
    reasons = []
    for venue in api.OPTIONS_MATRIX.get(symbol, ()):
        try:
            chain = options.snapshot(symbol, venue)
        except _LACKS as problem:
            reasons.append(str(problem))
            continue
        seen.append(Seen(f"options on {symbol}, {venue}", tables.provenance(chain)))
        if len(chain):
            return tables.surface(chain)
    section.text(f"No options on {symbol}: {'; '.join(reasons) or 'no venue lists them'}", "lack")
    return None


def _venues(rates: xr.DataArray) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "exchange": rates["exchange"].values,
            "mean_bps_8h": rates.mean("time").values,
            "least": rates.min("time").values,
            "most": rates.max("time").values,
            "latest": _latest(rates),
            "points": rates.notnull().sum("time").values,
        }
    )
    kept = frame[frame["points"] > 0].sort_values("mean_bps_8h", ascending=False)
    return kept.round(4).reset_index(drop=True)


def _latest(panel: xr.DataArray) -> np.ndarray[Any, Any]:
    frame: pd.DataFrame = panel.transpose("time", "exchange").to_pandas()
    return np.asarray(frame.ffill().iloc[-1])


def _widest(panel: xr.DataArray) -> pd.DataFrame:
    """Pairs with the widest mean spread, each pair once and in the direction that earns."""
    spreads = pair_spreads(panel)
    mean = spreads.mean("time").rename("spread_bps_8h")
    share = ((spreads > 0).sum("time") / spreads.notnull().sum("time")).rename("hours_positive")
    hours = spreads.notnull().sum("time").rename("hours")
    frame = xr.merge([mean, share, hours], join="exact").to_dataframe().reset_index()
    enough = frame["hours"] >= 0.5 * panel.sizes["time"]
    kept = frame[enough & (frame["spread_bps_8h"] > 0)].sort_values("spread_bps_8h", ascending=False)
    columns = ["symbol", "long", "short", "spread_bps_8h", "hours_positive", "hours"]
    return kept.head(_PAIRS)[columns].reset_index(drop=True)


def _holders(held: xr.DataArray) -> pd.DataFrame:
    share = oi_analysis.market_share(held)
    frame = pd.DataFrame(
        {
            "exchange": held["exchange"].values,
            "oi_usd_latest": _latest(held),
            "share_first": share.isel(time=0).values,
            "share_latest": share.isel(time=-1).values,
        }
    )
    return frame.dropna(subset="oi_usd_latest").sort_values("oi_usd_latest", ascending=False).round(4)
