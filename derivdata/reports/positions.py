"""Positions: open interest and its shares by venue, and liquidations by venue, side and cascade."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import plot
from derivdata.analysis import liquidations
from derivdata.analysis import oi as analysis
from derivdata.plot import style
from derivdata.plot.positions import gain_look, share_change, trend_of
from derivdata.reports.data import Data
from derivdata.reports.page import WIDE, Panel, Section, count, listing, pct, usd, venue_words
from derivdata.support.times import naive_utc
from derivdata.tables.panels import panel, provenance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MATTERS = 0.002
"""Minimum change of share for the text; a smaller one may be significant but is not relevant."""
_FORMATS = {
    "OI [M USD]": ",.1f",
    "OI [coins]": ",.0f",
    "share [%]": ".2f",
    "share at start [%]": ".2f",
    "trend [pp/day]": "+.4f",
    "from": "+.4f",
    "to": "+.4f",
}
_WITH_PRICES = (
    "Open interest in dollars rises with the price even if no position is opened; in coins it does not. "
    "Falling coins with a falling price are positions that were closed or liquidated."
)
_SIDES = (
    "A short is liquidated by a rising price, a long by a falling one: shorts are drawn upwards and to the "
    "right. Percentages are the share of shorts in the value of a venue. In a cascade, each liquidation "
    "moves the price towards the next; cascades are listed below."
)
_ROWS = 8
"""Maximum number of venues with a separate bar; the rest are summed."""
_STEP_HOURS = (1, 2, 4, 6, 8, 12, 24)
_MAX_BARS = 42
"""Maximum number of bars over the window. A week has steps of 4 hours."""
_MIN_CASCADE = 1e6
"""Minimum value of a cascade in the report [USD]."""
_DAY = pd.Timedelta(1, "D")
_LIQUIDATION_FORMATS = {
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


class Holdings(NamedTuple):
    """Open interest of one symbol: table, panel [USD], shares, and change and trend of each share."""

    symbol: str
    table: pd.DataFrame
    oi: xr.DataArray
    share: xr.DataArray
    trend: xr.Dataset

    @property
    def days(self) -> float:
        """Length of the window [days]."""
        return float((self.share["time"][-1] - self.share["time"][0]) / np.timedelta64(1, "D"))


def oi_section(data: Data) -> Section:
    """Build the section on shares, concentration and trends per symbol, and on all symbols by venue."""
    section = data.section("Open interest")
    all_holdings = []
    for symbol in data.report_options.symbols:
        symbol_holdings = _holdings(section, data, symbol)
        if symbol_holdings is not None:
            all_holdings.append(symbol_holdings)
    panels = []
    reading = "The source has no prices over time: part of each move is due to the price."
    for holdings in all_holdings:
        panels.append(_level_panel(section, data, holdings))
        if data.prices(holdings.symbol) is not None:
            reading = _WITH_PRICES
    names = [name for holdings in all_holdings for name in holdings.share["exchange"].values]
    scope = f"{venue_words(names)}, {data.report_options.period}"
    section.figure(panels, reading, scope)
    for holdings in all_holdings:
        name = f"{holdings.symbol} open interest of every venue"
        section.table(_venues(data, holdings), name, formats=_FORMATS, fold=True)
        _findings(section, data, holdings)
    with_shares = [holdings for holdings in all_holdings if holdings.share.sizes["exchange"] > 1]
    if with_shares:
        _answer(section, with_shares, data.report_options.period)
    summary = data.oi_exchanges()
    if summary is None:
        section.add_missing_note(data.missing["open interest by venue"])
    else:
        _everything(section, summary)
    return section


def _holdings(section: Section, data: Data, symbol: str) -> Holdings | None:
    """Return the open interest of a symbol; None, with a note, if the source has none."""
    table = data.oi(symbol)
    if table is None:
        section.add_missing_note(data.missing[f"open interest of {symbol}"])
        return None
    oi = panel(table, "oi_usd").isel(symbol=0)
    share = analysis.market_share(oi)
    dropped = share.attrs.get("dropped", "").split()
    share = share.where(share.notnull().any("time"), drop=True)
    if not share.sizes["exchange"]:
        section.add_missing_note(f"No venue has open interest of {symbol} over most of the window.")
        return None
    if dropped:
        section.text(
            f"{symbol}: excluded, since missing in more than 5 % of the window: {', '.join(dropped)}.", "soft"
        )
    if share.sizes["exchange"] == 1:
        section.add_missing_note(f"Only one venue has open interest of {symbol}: shares cannot be compared.")
    trend = trend_of(share).assign(change=share_change(share)).assign_coords(symbol=symbol)
    return Holdings(symbol, table, oi, share, trend)


def _everything(section: Section, summary: pd.DataFrame) -> None:
    """Add total open interest over all symbols, by venue."""
    total = summary["total_oi_usd"].sum()
    ranked = summary.sort_values("total_oi_usd", ascending=False)
    section.text(
        f"Over all symbols the source has {usd(total)} on {count(len(ranked), 'venue')}; the largest, "
        f"{ranked['exchange'].iloc[0]}, has {pct(float(ranked['total_oi_usd'].iloc[0] / total))}."
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
    section.table(frame, "Open interest of all symbols, by venue", formats=_FORMATS, fold=True)


def _level_panel(section: Section, data: Data, holdings: Holdings) -> Panel:
    """Return the panel of open interest and price, in coins if the source has prices."""
    prices = data.prices(holdings.symbol)
    symbol = holdings.symbol
    look: dict[str, Any] = {"title": f"{symbol} open interest and price", "size": (WIDE, 3.3)}
    return section.panel(plot.open_interest, holdings.table, price=prices, symbol=symbol, **look)


def _answer(section: Section, all_holdings: list[Holdings], period: str) -> None:
    """Add the venues that gained and lost most share of each symbol to the first screen."""
    changes = []
    for holdings in all_holdings:
        change = 100.0 * holdings.trend["change"].to_series().dropna()
        sure = change.index.isin(_significant(holdings.trend).index)
        columns = {"symbol": holdings.symbol, "change": change, "sure": sure}
        changes.append(pd.DataFrame(columns).rename_axis("venue").reset_index())
    table = pd.concat(changes, ignore_index=True)
    if table.empty:
        return
    words = []
    for symbol, rows in table.groupby("symbol", sort=False):
        ordered = rows.sort_values("change", kind="stable")
        top = ordered.iloc[-1]
        bottom = ordered.iloc[0]
        words.append(f"{symbol}: {_moved(top)}, {_moved(bottom)}")
    gains = "; ".join(words[:3])
    key = "* significant at 95 %" if "*" in gains else "none of them significant at 95 %"
    line = f"{gains} points of share in {style.day_words(all_holdings[0].days)} ({key})."
    # The largest changes of each symbol, grouped by symbol.
    symbols = list(table["symbol"].drop_duplicates()[:3])
    largest = table.loc[table["change"].abs().sort_values(ascending=False, kind="stable").index]
    rows = [largest[largest["symbol"] == symbol].head(_ROWS // len(symbols)) for symbol in symbols]
    largest = pd.concat(rows, ignore_index=True)
    title = "Largest changes of share"
    panel = section.panel(_draw_gains, largest, title=title, size=(WIDE, 2.6), all_holdings=all_holdings)
    names = [name for holdings in all_holdings for name in holdings.share["exchange"].values]
    scope = f"{venue_words(names)}, {period}"
    section.answer("Which venues gained open interest?", line, panel, scope)


def _moved(row: pd.Series) -> str:
    mark = "*" if row["sure"] else ""
    return f"{row['venue']} {row['change']:+.2f}{mark}"


def _draw_gains(changes: pd.DataFrame, *, all_holdings: list[Holdings], ax: Axes, source: Any = None) -> Axes:
    """Draw the largest changes of share of each symbol as bars."""
    rows = []
    for _, of_symbol in changes.groupby("symbol", sort=False):
        rows.append(of_symbol.sort_values("change", ascending=False, kind="stable"))
    shown = pd.concat(rows, ignore_index=True)
    style.rows(ax, list(shown["symbol"] + " " + shown["venue"]), 0.2)
    for row, (change, is_sure) in enumerate(zip(shown["change"], shown["sure"], strict=True)):
        look = gain_look(np.array([change]), bool(is_sure))
        style.bars(ax, [row], [change], 0.66, horizontal=True, **look)
        # The label is next to the end of the bar, away from zero.
        side = "left"
        shift = (4, 0)
        if change < 0:
            side = "right"
            shift = (-4, 0)
        words = f"{change:+.2f}"
        ax.annotate(words, (change, row), shift, va="center", ha=side, fontsize=8, textcoords="offset points")
    for first in np.flatnonzero(shown["symbol"].ne(shown["symbol"].shift()))[1:]:
        ax.axhline(first - 0.5, color=style.GREY, lw=0.6)  # Space between symbols.
    ax.axvline(0, color=style.GREY, lw=1.0)
    reach = float(shown["change"].abs().max())
    low = min(float(shown["change"].min()), 0.0)
    high = max(float(shown["change"].max()), 0.0)
    ax.set_xlim(low - 0.35 * reach, high + 0.35 * reach)
    days = all_holdings[0].days
    most = shown.loc[shown["change"].abs().idxmax()]
    did = "gained" if most["change"] > 0 else "lost"
    title = (
        f"{most['venue']} {did} {abs(most['change']):.2f} points of {most['symbol']} open interest in "
        f"{style.day_words(days)}, the largest change of share"
    )
    style.dress(
        ax, title=title, x=f"change of share in {style.day_words(days)} [percentage points]", grid="x"
    )
    sure = int(shown["sure"].sum())
    key = "no trend is significant at 95 %"
    if sure:
        key = "solid: trend significant at 95 %; pale: not significant"
    if sure == len(shown):
        key = "all trends are significant at 95 %"
    style.note(ax, key)
    style.footer(ax, *(holdings.table for holdings in all_holdings), source=source)
    return ax


def _venues(data: Data, holdings: Holdings) -> pd.DataFrame:
    """Return one row per venue: level, shares at both ends, and trend."""
    symbol, _, oi, share, trend = holdings
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


def _findings(section: Section, data: Data, holdings: Holdings) -> None:
    """Add key numbers, concentration and changes of a symbol."""
    symbol, _, oi, share, trend = holdings
    oi = oi.sel(exchange=share["exchange"])
    venues = count(share.sizes["exchange"], "venue")
    total = oi.sum("exchange", min_count=oi.sizes["exchange"]).dropna("time")
    if total.size:
        last = f"at {pd.Timestamp(total['time'].values[-1]):%Y-%m-%d %H:%M} UTC"
        level = float(total.isel(time=-1))
        price = data.price(symbol, total["time"].values[-1])
        value = usd(level)
        if price > 0:
            value = f"{value} ({level / price:,.0f} {symbol})"
        section.number(symbol, f"open interest, {venues}", value, window=last)
        if np.isfinite(price):
            section.number(symbol, "price", f"{price:,.6g} USD", window=last)
        section.number(
            symbol, "change of open interest", _change(data, total, symbol), window="over the window"
        )
        section.metric(f"{symbol} open interest", level)
        section.metric(f"{symbol} price", price)
    if share.sizes["exchange"] > 1:
        last_shares = share.dropna("time", how="all").isel(time=-1).to_series().sort_values(ascending=False)
        herfindahl = 1e4 * float((last_shares**2).sum())
        first, second = last_shares.index[:2]
        section.finding(
            "wide",
            f"{symbol} open interest on {venues}: {first} has {pct(last_shares.iloc[0], 0)}, "
            f"{second} {pct(last_shares.iloc[1], 0)}; HHI {herfindahl:,.0f}.",
        )
    if total.size > 1:
        words = _change(data, total, symbol)
        if share.sizes["exchange"] > 1:
            days = float((total["time"][-1] - total["time"][0]) / np.timedelta64(1, "D"))
            words += f"; {_trends(trend, days)}"
        section.finding("changed", f"{symbol} open interest over the window: {words}.")


def _change(data: Data, total: xr.DataArray, symbol: str) -> str:
    """Return a sentence about the change in USD and, if prices are known, in coins.

    Open interest in USD moves with the price even if no position changes. Coins = USD / price removes this.
    """
    in_usd = float(total.isel(time=-1) / total.isel(time=0))
    first = data.price(symbol, total["time"].values[0])
    last = data.price(symbol, total["time"].values[-1])
    words = f"{pct(in_usd - 1.0, signed=True)} in USD"
    if not (first > 0 and last > 0):
        return f"{words}, an unknown share of it due to the price"
    price = last / first
    coins = pct(in_usd / price - 1.0, signed=True)
    return f"{coins} in coins ({words}, price {pct(price - 1.0, signed=True)})"


def _significant(trend: xr.Dataset) -> pd.Series:
    """Return the slopes of the trends whose interval excludes zero."""
    sure = (trend["status"] == 0) & ((trend["low"] > 0) | (trend["high"] < 0))
    return trend["slope"].where(sure).to_series().dropna()


def _trends(trend: xr.Dataset, days: float) -> str:
    """Return a sentence about the venues with significant gains and losses of share above `_MATTERS`."""
    changes = days * _significant(trend)
    changes = changes[changes.abs() >= _MATTERS]
    sides = []
    for words, side in (("gaining", changes[changes > 0]), ("losing", changes[changes < 0])):
        names = side.abs().sort_values(ascending=False).index[:3]
        if len(names):
            venues = [f"{name} ({100 * changes[name]:+.1f} points)" for name in names]
            sides.append(f"{words}: {listing(venues)}")
    return "; ".join(sides) or "no venue's share has a significant trend"


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
    if events["value_usd"].sum() == 0.0:
        # Shares of the total are undefined.
        section.add_missing_note("All orders have a value of 0 USD: the values may be missing at the source.")
        return section
    span = data.liquidations_start, data.report_options.window.end
    _add_liquidation_figure(section, events, span)
    section.table(_by_side(events), "Liquidations by venue", formats=_LIQUIDATION_FORMATS, narrow=True)
    _liquidation_findings(section, events, _large(section, events), data)
    return section


def _add_liquidation_figure(
    section: Section, events: pd.DataFrame, span: tuple[pd.Timestamp, pd.Timestamp]
) -> None:
    """Add the figure of liquidations over time, and by venue."""
    over_time = section.panel(
        _draw_liquidations, events, *span, title="Liquidations over time by side", size=(WIDE, 3.2)
    )
    by_venue = section.panel(
        _draw_venues, _by_side(events), events, title="Liquidations by venue and side", size=(WIDE, 3.2)
    )
    venues = venue_words(events["exchange"].astype(str))
    scope = f"{venues}, {span[0]:%Y-%m-%d} to {span[1]:%Y-%m-%d}"
    section.figure([over_time, by_venue], _SIDES, scope)


def _large(section: Section, events: pd.DataFrame) -> pd.DataFrame:
    """Return the cascades, and add their table."""
    cascades = liquidations.cascades(liquidations.clusters(events, by=("symbol",)), min_usd=_MIN_CASCADE)
    if cascades.empty:
        section.add_missing_note(
            "No cascades: no run of five orders, each within a minute of the previous one, was worth a "
            "million USD."
        )
        return cascades
    section.text(
        "A cascade is five or more orders of one symbol, each within a minute of the previous one, worth "
        "at least a million dollars and more than 99 % of the earlier clusters."
    )
    section.table(_cascades(cascades), "Cascades", formats=_LIQUIDATION_FORMATS)
    return cascades


def _draw_liquidations(
    events: pd.DataFrame, start: pd.Timestamp, end: pd.Timestamp, *, ax: Axes, source: Any = None
) -> Axes:
    """Draw the value of liquidated shorts (up) and longs (down) per step of time."""
    hours = (end - start) / pd.Timedelta(1, "h")
    step = next((step for step in _STEP_HOURS if hours / step <= _MAX_BARS), _STEP_HOURS[-1])
    width = pd.Timedelta(step, "h")
    steps = naive_utc(pd.DatetimeIndex(events["time"])).floor(width)
    sums = events.groupby([steps, events["side"].astype(str).to_numpy()])["value_usd"].sum() / 1e6
    by_side = sums.unstack(fill_value=0.0).reindex(columns=["long", "short"], fill_value=0.0)
    for side, sign, color in (("short", 1.0, style.SHORT), ("long", -1.0, style.LONG)):
        label = f"{side}s: {usd(1e6 * by_side[side].sum())}"
        style.bars(
            ax, by_side.index, sign * by_side[side], 0.85 * width, centred=False, color=color, label=label
        )
    ax.axhline(0, color=style.GREY, lw=0.8)
    ax.set_xlim(naive_utc(start), naive_utc(end))
    place = int(by_side.to_numpy().argmax())
    top = by_side.iloc[place // 2]
    side = str(by_side.columns[place % 2])
    when = by_side.index[place // 2]
    share = pct(float(top[side] / by_side.to_numpy().sum()), 0)
    length = "an hour" if step == 1 else f"{step} hours"
    title = (
        f"{usd(1e6 * top[side])} of {_assets(events)} {side}s were liquidated in {length} from "
        f"{when.day}\u00a0{when:%b %H:%M} UTC, {share} of all in {style.day_words(hours / 24.0)}"
    )
    style.dress(ax, title=title, y=f"longs (down), shorts (up)\n[million USD in {step} h]", form="size")
    style.legend(ax, "above")
    style.utc_axis(ax)
    style.footer(ax, events, source=source)
    return ax


def _draw_venues(by_side: pd.DataFrame, events: pd.DataFrame, *, ax: Axes, source: Any = None) -> Axes:
    """Draw the value of liquidated longs (left) and shorts (right) of the largest venues."""
    sides = by_side.set_index("venue")[["longs [M USD]", "shorts [M USD]"]]
    shown = sides.iloc[:_ROWS]
    if len(sides) > _ROWS:
        rest = sides.iloc[_ROWS:]
        shown = pd.concat([shown, rest.sum().to_frame(f"{len(rest)} others").T])
    style.rows(ax, list(shown.index), 0.24)
    for column, sign, color in (("shorts [M USD]", 1.0, style.SHORT), ("longs [M USD]", -1.0, style.LONG)):
        place = np.arange(len(shown))
        style.bars(ax, place, sign * shown[column].to_numpy(), 0.62, horizontal=True, color=color)
    totals = shown.sum(axis=1)
    look: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
    look |= {"va": "center", "fontsize": 8, "annotation_clip": False}
    shares = shown["shorts [M USD]"] / totals
    for row, share in enumerate(shares):
        ax.annotate(pct(float(share), 0), (1.0, row), (4, 0), **look)
    ax.annotate("shorts", (1.0, -0.85), (4, 0), **look)
    ax.axvline(0, color=style.GREY, lw=0.8)
    first = by_side.iloc[0]
    value = first["longs [M USD]"] + first["shorts [M USD]"]
    of_all = pct(float(value / sides.to_numpy().sum()), 0)
    title = (
        f"{first['venue']} liquidated {usd(1e6 * value)} of {_assets(events)} positions, {of_all} of the "
        f"total; {pct(float(shares.iloc[0]), 0)} were shorts"
    )
    style.dress(ax, title=title, x="longs (left), shorts (right) [million USD]", grid="x")
    style.write(ax.xaxis, "size")
    style.footer(ax, events, source=source)
    return ax


def _assets(events: pd.DataFrame) -> str:
    """Return the symbols of liquidations for a title."""
    names = sorted(set(events["symbol"].astype(str)))
    if len(names) > 3:
        return f"{len(names)} symbols"
    return listing(names)


def is_full(events: pd.DataFrame) -> bool:
    """Return whether the response is full, so that orders may be missing."""
    return bool(provenance(events)["coverage"]["missed"])


def _by_side(events: pd.DataFrame) -> pd.DataFrame:
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


def _liquidation_findings(section: Section, events: pd.DataFrame, cascades: pd.DataFrame, data: Data) -> None:
    total = events["value_usd"].sum()
    longs = events.loc[events["side"] == "long", "value_usd"].sum() / total
    days = (data.report_options.window.end - data.liquidations_start) / _DAY
    requested = data.report_options.symbols
    symbols = " and ".join(requested) if len(requested) < 4 else "all symbols"
    value = f"{usd(total)} ({pct(longs, 0)} of it longs)"
    section.number("", f"liquidated, {symbols}", value, window=f"last {style.day_words(days)}")
    last_day = events.loc[events["time"] > data.report_options.window.end - _DAY, "value_usd"].sum()
    section.metric(f"liquidations of {symbols}, last 24 h", last_day)
    if days > 1:
        section.finding(
            "changed",
            f"Liquidations: {usd(last_day)} over the last 24 hours against {usd(total / days)} a day over "
            f"{style.day_words(days)}.",
        )
    if len(cascades):
        top = cascades.loc[cascades["value_usd"].idxmax()]
        section.finding(
            "wide",
            f"Largest cascade: {usd(top['value_usd'])} of {top['symbol']} on "
            f"{top['start']:%Y-%m-%d at %H:%M} UTC, {top['count']} orders on {top['venues']:.0f} venues.",
        )
