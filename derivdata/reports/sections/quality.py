"""Data quality and coverage: what arrived, what is missing, what looks wrong."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import chain as chains
from derivdata.analysis import quality
from derivdata.analysis.price_agreement import other_coins
from derivdata.reports.data import Data
from derivdata.reports.html_page import Section, count, listing
from derivdata.reports.sections.liquidations import is_full
from derivdata.tables.coins import OTHER_COIN
from derivdata.tables.panels import panel

_WORST = 12
_FORMATS = {"present": ",d", "missing": ",d", "gaps": ",d", "step [h]": ".3g", "longest gap [h]": ".1f"}


def quality_section(data: Data) -> Section:
    """Build the section on points, gaps and duplicates of each table, and on options not used."""
    section = Section("Data quality and coverage", drawings=data.drawings)
    section.text(
        "Expected points are those between the first and the last of a series at its own step. Outliers are "
        "more than twelve robust deviations from the median; they are counted and kept."
    )
    tables = {"funding rates": data.funding(), "funding settlements": data.settlements()}
    tables |= {f"open interest of {symbol}": data.oi(symbol) for symbol in data.report_options.symbols}
    start = data.report_options.window.start
    examined = {
        what: quality.quality(table, start=start) for what, table in tables.items() if table is not None
    }
    if not examined:
        section.add_missing_note("The source has no table over time: there is nothing to examine.")
    else:
        section.points([f"{what}: {report.attrs['summary']}." for what, report in examined.items()])
        worst = _worst(examined)
        if len(worst):
            section.table(worst, formats=_FORMATS, fold=f"Series with the most missing: {len(worst)}")
    _prices(section, data)
    _options(section, data)
    _liquidations(section, data)
    return section


def _prices(section: Section, data: Data) -> None:
    """Name the venues whose marks lie over 5 % from the others in the median of the window."""
    for symbol in data.report_options.symbols:
        table = data.prices(symbol)
        marks = None if table is None else panel(table, "price_usd").isel(symbol=0)
        if marks is None or marks.sizes["exchange"] < 2:
            continue
        off = other_coins(marks).to_series().dropna()
        if off.empty:
            section.text(f"Marks of {symbol} on {marks.sizes['exchange']} venues agree within 5 %.")
            continue
        named = listing([f"{venue} (× {factor:.4g})" for venue, factor in off.items()])
        words = f"{symbol} prices differ by more than 5 % from the median of venues: {named}"
        if (abs(np.log(off)) > OTHER_COIN).any():
            why = "another coin or contract under the same ticker"
        else:
            why = "a squeeze, a coin before its listing, or another coin under the same ticker"
        section.text(f"{words}. This is {why}: do not rely on a spread with it.", "warn")
        section.finding("wide", f"{words}; {why}.")


def _worst(examined: dict[str, pd.DataFrame]) -> pd.DataFrame:
    columns = ["symbol", "exchange", "start", "end", "step_hours", "present", "missing", "gaps"]
    parts = [
        report.assign(table=what)[["table", *columns, "longest_gap_hours"]]
        for what, report in examined.items()
    ]
    rows = pd.concat(parts, ignore_index=True)
    rows = rows[rows["missing"] > 0].sort_values("missing", ascending=False, kind="stable").head(_WORST)
    text = {name: rows[name].astype(str) for name in ("symbol", "exchange")}
    names = {"exchange": "venue", "step_hours": "step [h]", "longest_gap_hours": "longest gap [h]"}
    return rows.assign(**text).rename(columns=names)


def _options(section: Section, data: Data) -> None:
    rows = []
    for symbol in data.report_options.symbols:
        for venue in data.option_venues(symbol):
            options = data.options(symbol, venue) if "options" in data.report_options.sections else None
            if options is not None:
                rows.append(_chain(options, data.quotes(symbol, venue), symbol, venue))
    if rows:
        section.text(
            "Options out of the money are used, one per strike. Static arbitrage between quotes is counted "
            "and not repaired: a call above one of a lower strike, a butterfly below zero."
        )
        formats = dict.fromkeys(("options", "used", "arbitrages"), ",d")
        section.table(pd.DataFrame(rows), formats=formats, fold="Options used and dropped, by venue")


def _chain(options: pd.DataFrame, quotes: xr.Dataset, symbol: str, venue: str) -> dict[str, object]:
    dropped = {reason: n for reason, n in json.loads(quotes.attrs["dropped"]).items() if n}
    reasons = ", ".join(f"{n} {reason.replace('_', ' ')}" for reason, n in dropped.items())
    sources = sorted(set(map(str, quotes["forward_source"].values.ravel())) - {""})
    return {
        "symbol": symbol,
        "venue": venue,
        "options": len(options) + sum(options.attrs["dropped"].values()),
        "used": int(quotes["iv"].notnull().sum()),
        "dropped": reasons or "none",
        "forward from": ", ".join(sources) or "none",
        "without open interest": int(options["open_interest"].isna().sum()),
        "arbitrages": len(chains.arbitrage(quotes)),
    }


def _liquidations(section: Section, data: Data) -> None:
    events = data.liquidations() if "liquidations" in data.report_options.sections else None
    if events is None:
        return
    full = "hit its limit, so that some may be missing" if is_full(events) else "is complete"
    section.text(
        f"Liquidations: {count(len(events), 'order')} since {data.liquidations_start:%Y-%m-%d %H:%M} UTC; "
        f"the answer {full}. What a venue's own feed leaves out is not known."
    )
