"""Liquidations by venue, side and cascade."""

from __future__ import annotations

import pandas as pd

from derivdata import plot
from derivdata.analysis import liquidations as analysis
from derivdata.reports.data import Data
from derivdata.reports.page import WIDE, Section, pct, usd
from derivdata.tables.panels import provenance

_MIN_CASCADE = 1e6
_DAY = pd.Timedelta(1, "D")
_FORMATS = {
    "longs [M USD]": ",.2f",
    "shorts [M USD]": ",.2f",
    "orders": ",d",
    "imbalance": "+.2f",
    "value [M USD]": ",.2f",
    "venues": ".0f",
    "seconds": ",.0f",
    "price move [%]": "+.2f",
    "in 10 s [M USD]": ",.2f",
}


def liquidations_section(data: Data) -> Section:
    """Build the section on orders of at most the last week, by venue and by cascade."""
    section = data.section("Liquidations")
    events = data.liquidations()
    if events is None:
        section.add_missing_note(data.missing["liquidations"])
        return section
    section.text(
        f"{len(events):,} orders of {', '.join(data.report_options.symbols)}, by liquidated side. Some "
        "venues throttle their feeds, so levels cannot be compared across venues."
    )
    if is_full(events):
        section.text(f"The response is full at {len(events):,} orders: others may be missing.", "warn")
    largest = str(events.groupby("symbol", observed=True)["value_usd"].sum().idxmax())
    # Prices are fetched by the section on open interest; a recording without it does not have them.
    prices = data.prices(largest) if "oi" in data.report_options.sections else None
    size = (WIDE, 4.4 if prices is None else 5.0)
    panel = section.panel(
        plot.liquidations,
        events,
        price=prices,
        start=data.liquidations_start,
        end=data.report_options.window.end,
        top=8,
        title="Liquidations by venue and side",
        size=size,
    )
    section.figure(
        [panel],
        "A dot is a venue's liquidated longs or shorts, and its area their value, in the step that the axis "
        "states; a column of large dots across venues is a cascade. Bars are the value per hour. Shorts are "
        "above longs in rows and bars. Green marks the time that the response covers completely."
        + ("" if prices is None else f" On top the price of {largest}."),
    )
    section.table(_venues(events), "Liquidations by venue", formats=_FORMATS, narrow=True)
    _findings(section, events, _large(section, events), data)
    return section


def _large(section: Section, events: pd.DataFrame) -> pd.DataFrame:
    """Return the cascades, and add their table."""
    cascades = analysis.cascades(analysis.clusters(events, by=("symbol",)), min_usd=_MIN_CASCADE)
    if len(cascades):
        section.text(
            "A cascade is five or more orders of one symbol, each within a minute of the previous one, worth "
            "at least a million dollars and more than 99 % of the earlier clusters."
        )
        section.table(_cascades(cascades), "Cascades", formats=_FORMATS)
    else:
        section.add_missing_note(
            "No cascades: no run of five orders, each within a minute of the previous one, was worth a "
            "million USD."
        )
    return cascades


def is_full(events: pd.DataFrame) -> bool:
    """Return whether the response is full, so that orders may be missing."""
    return bool(provenance(events)["coverage"]["missed"])


def _venues(events: pd.DataFrame) -> pd.DataFrame:
    """Return one row per venue: liquidated value by side, and the number of orders."""
    rows = events.assign(side=events["side"].astype(str), exchange=events["exchange"].astype(str))
    sums = rows.pivot_table(
        index="exchange", columns="side", values="value_usd", aggfunc="sum", fill_value=0.0
    )
    sides = sums.reindex(columns=["long", "short"], fill_value=0.0)
    frame = pd.DataFrame(
        {
            "longs [M USD]": sides["long"] / 1e6,
            "shorts [M USD]": sides["short"] / 1e6,
            "orders": rows.groupby("exchange").size(),
        }
    )
    order = sides.sum(axis=1).sort_values(ascending=False).index
    return frame.loc[order].rename_axis("venue").reset_index()


def _cascades(cascades: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "start [UTC]": cascades["start"],
            "symbol": cascades["symbol"].astype(str),
            "seconds": (cascades["end"] - cascades["start"]).dt.total_seconds(),
            "orders": cascades["count"],
            "value [M USD]": cascades["value_usd"] / 1e6,
            "in 10 s [M USD]": cascades["peak_10s_usd"] / 1e6,
            "venues": cascades["venues"],
            "imbalance": cascades["imbalance"],
            "price move [%]": 100 * cascades["price_move"],
        }
    )


def _findings(section: Section, events: pd.DataFrame, cascades: pd.DataFrame, data: Data) -> None:
    total = events["value_usd"].sum()
    longs = events.loc[events["side"] == "long", "value_usd"].sum() / total
    days = (data.report_options.window.end - data.liquidations_start) / _DAY
    requested = data.report_options.symbols
    symbols = " and ".join(requested) if len(requested) < 4 else "all symbols"
    value = f"{usd(total)} ({pct(longs, 0)} of it longs)"
    section.number("", f"liquidated, {symbols}", value, window=f"last {days:.3g} days")
    last_day = events.loc[events["time"] > data.report_options.window.end - _DAY, "value_usd"].sum()
    section.metric(f"liquidations of {symbols}, last 24 h", last_day)
    if days > 1:
        section.finding(
            "changed",
            f"Liquidations: {usd(last_day)} over the last 24 hours against {usd(total / days)} a day over "
            f"{days:.3g} days.",
        )
    if len(cascades):
        top = cascades.loc[cascades["value_usd"].idxmax()]
        section.finding(
            "wide",
            f"Largest cascade: {usd(top['value_usd'])} of {top['symbol']} on "
            f"{top['start']:%Y-%m-%d at %H:%M} UTC, {top['count']} orders on {top['venues']:.0f} venues.",
        )
