"""Open interest: who holds it, and who gains share."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import plot
from derivdata.analysis import oi as analysis
from derivdata.plot.oi_shares import trend_of
from derivdata.plot.style import row_size
from derivdata.reports.data import Data
from derivdata.reports.html_page import WIDE, Section, count, listing, pct, usd
from derivdata.tables.panels import panel

_TRENDS = 15
_MATTERS = 0.002
_FORMATS = {
    "OI [M USD]": ",.1f",
    "OI [coins]": ",.0f",
    "share [%]": ".2f",
    "share at start [%]": ".2f",
    "trend [pp/day]": "+.4f",
    "from": "+.4f",
    "to": "+.4f",
}


def oi_section(data: Data) -> Section:
    """Build the section on shares, concentration and trends per symbol, and on all symbols by venue."""
    section = Section("Open interest", drawings=data.drawings)
    for symbol in data.report_options.symbols:
        table = data.oi(symbol)
        if table is None:
            section.add_missing_note(data.missing[f"open interest of {symbol}"])
        else:
            _symbol(section, data, table, symbol)
    summary = data.oi_exchanges()
    if summary is None:
        section.add_missing_note(data.missing["open interest by venue"])
    else:
        _everything(section, summary)
    return section


def _everything(section: Section, summary: pd.DataFrame) -> None:
    total = summary["total_oi_usd"].sum()
    ranked = summary.sort_values("total_oi_usd", ascending=False)
    section.text(
        f"Over all symbols the source counts {usd(total)} on {count(len(ranked), 'venue')}; the largest, "
        f"{ranked['exchange'].iloc[0]}, holds {pct(float(ranked['total_oi_usd'].iloc[0] / total))}."
    )
    frame = pd.DataFrame(
        {
            "venue": ranked["exchange"].astype(str),
            "OI [M USD]": ranked["total_oi_usd"] / 1e6,
            "share [%]": 100 * ranked["market_share"],
            "symbols": ranked["symbol_count"],
            "largest symbol": ranked["top_symbol"].astype(str),
        }
    )
    section.table(frame, formats=_FORMATS, fold="All symbols, by venue")


def _symbol(section: Section, data: Data, table: pd.DataFrame, symbol: str) -> None:
    oi = panel(table, "oi_usd").isel(symbol=0)
    share = analysis.market_share(oi)
    share = share.where(share.notnull().any("time"), drop=True)
    section.heading(symbol)
    if not share.sizes["exchange"]:
        section.add_missing_note(f"No venue has open interest of {symbol} over most of the window.")
        return
    gone = share.attrs.get("dropped", "").split()
    if gone:
        section.text(f"Left out, being absent over more than 5 % of the window: {', '.join(gone)}.", "soft")
    _level(section, data, table, symbol)
    trend = trend_of(share)
    _figures(section, table, share, trend, symbol)
    section.table(_venues(data, oi, share, trend, symbol), formats=_FORMATS, fold=f"{symbol}: every venue")
    _findings(section, data, oi.sel(exchange=share["exchange"]), share, trend, symbol)


def _level(section: Section, data: Data, table: pd.DataFrame, symbol: str) -> None:
    """Add the figure of price and open interest, in coins where the source has prices."""
    prices = data.prices(symbol)
    section.figure(
        plot.open_interest,
        table,
        price=prices,
        symbol=symbol,
        title=f"{symbol} open interest and price",
        reading="Open interest in dollars rises with the price though nobody opens a position; in coins it "
        "does not. Falling coins with a falling price are positions that were closed or liquidated."
        if prices is not None
        else "The source has no prices over time: part of every move is that of the price.",
        size=(WIDE, 5.2 if prices is not None else 3.0),
    )


def _figures(
    section: Section, table: pd.DataFrame, share: xr.DataArray, trend: xr.Dataset, symbol: str
) -> None:
    if share.sizes["exchange"] == 1:
        section.add_missing_note(
            f"One venue alone has open interest of {symbol}: there are no shares to compare."
        )
        return
    section.figure(
        plot.open_interest,
        table,
        kind="share",
        symbol=symbol,
        title=f"{symbol} shares of open interest",
        reading="The height of a band is the venue's part of the open interest. The line below is the "
        "Herfindahl–Hirschman index: 10,000 is one venue that holds all, 1,000 is ten equal ones.",
        size=(WIDE, 4.8),
    )
    estimated = int(trend["slope"].notnull().sum())
    days = float((share["time"][-1] - share["time"][0]) / np.timedelta64(1, "D"))
    if estimated:
        section.figure(
            plot.open_interest,
            trend.assign_coords(symbol=symbol),
            kind="trend",
            window=pd.Timedelta(days, "D"),
            source=table,
            title=f"{symbol} trend of shares",
            reading="What each venue's trend adds up to over the window: right of zero it gains share, left "
            "of it loses. Filled: significant at 95 %. Hollow: could be noise.",
            size=row_size(min(_TRENDS, estimated), 0.24, wide=WIDE),
        )


def _venues(
    data: Data, oi: xr.DataArray, share: xr.DataArray, trend: xr.Dataset, symbol: str
) -> pd.DataFrame:
    frame: pd.DataFrame = oi.transpose("time", "exchange").to_pandas()
    filled: pd.DataFrame = share.transpose("time", "exchange").to_pandas()
    by_venue = pd.DataFrame(
        {
            "OI [M USD]": frame.ffill().iloc[-1] / 1e6,
            "share [%]": 100 * filled.ffill().iloc[-1],
            "share at start [%]": 100 * filled.bfill().iloc[0],
            "trend [pp/day]": 100 * trend["slope"].to_series(),
            "from": 100 * trend["low"].to_series(),
            "to": 100 * trend["high"].to_series(),
        }
    )
    price = data.price(symbol, oi["time"].values[-1])
    if price > 0:
        by_venue.insert(1, "OI [coins]", 1e6 * by_venue["OI [M USD]"] / price)
    ordered = by_venue.dropna(subset="OI [M USD]").sort_values("OI [M USD]", ascending=False)
    return ordered.rename_axis("venue").reset_index()


def _findings(
    section: Section, data: Data, oi: xr.DataArray, share: xr.DataArray, trend: xr.Dataset, symbol: str
) -> None:
    several = count(share.sizes["exchange"], "venue")
    total = oi.sum("exchange", min_count=oi.sizes["exchange"]).dropna("time")
    if total.size:
        last = f"at {pd.Timestamp(total['time'].values[-1]):%Y-%m-%d %H:%M} UTC"
        level, price = float(total.isel(time=-1)), data.price(symbol, total["time"].values[-1])
        coins = f", {level / price:,.0f} {symbol}" if price > 0 else ""
        section.number(usd(level), f"{symbol} open interest{coins}, {several}", window=last)
        section.metric(f"{symbol} open interest", level)
        section.metric(f"{symbol} price", price)
        when = f"{pd.Timestamp(total['time'].values[-1]):%H:%M}"
        at = f"price {price:,.6g} USD at {when} UTC, " if np.isfinite(price) else ""
        section.headline(
            symbol, f"{at}open interest {usd(level)}, {_change(data, total, symbol)} over the window"
        )
    if share.sizes["exchange"] > 1:
        late = share.dropna("time", how="all").isel(time=-1).to_series().sort_values(ascending=False)
        herfindahl = 1e4 * float((late**2).sum())
        section.finding(
            "wide",
            f"{symbol} open interest on {several}: {late.index[0]} holds {pct(late.iloc[0], 0)}, "
            f"{late.index[1]} {pct(late.iloc[1], 0)}; HHI {herfindahl:,.0f}.",
        )
    if total.size > 1:
        days = float((total["time"][-1] - total["time"][0]) / np.timedelta64(1, "D"))
        moved = _trends(trend, days) if share.sizes["exchange"] > 1 else ""
        section.finding(
            "changed", f"{symbol} open interest over the window: {_change(data, total, symbol)}{moved}."
        )


def _change(data: Data, total: xr.DataArray, symbol: str) -> str:
    """Describe the change in USD and, where prices are known, in coins.

    Open interest in USD moves with the price though no position changes: coins = USD / price takes that out.
    """
    in_usd = float(total.isel(time=-1) / total.isel(time=0))
    first, last = (data.price(symbol, total["time"].values[place]) for place in (0, -1))
    words = f"{pct(in_usd - 1.0, signed=True)} in USD"
    if not (first > 0 and last > 0):
        return f"{words}, of which the price's part is not known"
    price = last / first
    coins = pct(in_usd / price - 1.0, signed=True)
    return f"{coins} in coins ({words}, price {pct(price - 1.0, signed=True)})"


def _trends(trend: xr.Dataset, days: float) -> str:
    """Describe who gained and who lost enough to matter, where the interval excludes zero."""
    sides = []
    told = trend["status"] == 0
    for words, sure in (("gaining", told & (trend["low"] > 0)), ("losing", told & (trend["high"] < 0))):
        moved = (days * trend["slope"].where(sure)).to_series().dropna()
        moved = moved[moved.abs() >= _MATTERS]
        names = moved.abs().sort_values(ascending=False).index[:3]
        if len(names):
            sides.append(f"{words}: {listing([f'{n} ({100 * moved[n]:+.1f} points)' for n in names])}")
    return f"; {'; '.join(sides)}" if sides else "; no venue's share has a significant trend"
