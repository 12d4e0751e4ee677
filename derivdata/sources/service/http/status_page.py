"""One page on the state of the service: sources, freshness and gaps, widest spreads, last liquidations."""

from __future__ import annotations

from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

import pandas as pd

from derivdata.sources.service.data import market
from derivdata.sources.service.data.market import funding_now
from derivdata.support.text import html_page

if TYPE_CHECKING:
    from derivdata.sources.service.data.view import View

REFRESH_SECONDS = 30
_SHOWN = 12
_WEEK = pd.Timedelta(7, "D")
_DAY = pd.Timedelta(1, "D")
_HOUR = pd.Timedelta(1, "h")
_LATE = pd.Timedelta(2, "h")
_FRESH = ("funding_history", "funding_settlements", "oi_history", "prices_history", "options_snapshot")
_EVENTS = "liquidations_events"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_NONE = "–"
_SECTIONS = {
    "freshness": "Freshness",
    "gaps": "Gaps",
    "spreads": "Widest funding spreads",
    "liquidations": "Last liquidations",
}


def status_page(view: View, ledger: pd.DataFrame | None) -> str:
    """Return the page, without scripts or external files; `ledger` is the `status` of a collected archive."""
    store = view.store
    synthetic = ' <span class="late">Synthetic data.</span>' if store.synthetic else ""
    title = f"derivdata: {store.label}"
    sections = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">As of {view.now:%Y-%m-%d %H:%M:%S} UTC, loaded again every {REFRESH_SECONDS} '
        f"seconds. Data since {store.start:%Y-%m-%d %H:%M} UTC; {len(store.tables())} tables.{synthetic}</p>",
        "<nav>" + " ".join(f'<a href="#{name}">{title}</a>' for name, title in _SECTIONS.items()) + "</nav>",
    ]
    bodies = (_freshness(view), _gaps(ledger), _spreads(view), _liquidations(view))
    for (name, heading), body in zip(_SECTIONS.items(), bodies, strict=True):
        sections += [f'<h2 id="{name}">{heading}</h2>', body]
    folder = resources.files("derivdata.sources.service.http")
    style = folder.joinpath("status.css").read_text(encoding="utf-8")
    refresh = f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}">'
    return html_page(title, "\n".join(sections), style=style, policy=_POLICY, head=refresh)


def _freshness(view: View) -> str:
    """Return the age of each venue's newest row of the last week, oldest first; over two hours are marked."""
    ages: dict[str, pd.Series] = {}
    for name in _FRESH:
        if view.has(name):
            frame = view.latest(name, view.now, within=_WEEK)
            if len(frame):
                newest = frame.groupby(frame["exchange"].astype(str))["time"].max()
                ages[name] = view.now - newest
    if view.has(*market.TABLES):
        frame = market.liquidation_orders(view, view.now - _DAY, view.now)
        if len(frame):
            ages[_EVENTS] = view.now - frame.groupby(frame["exchange"].astype(str))["time"].max()
    if not ages:
        return "<p>No row of the last week.</p>"
    table = pd.DataFrame(ages).sort_index()
    # Payments and liquidations have no regular step, so their age does not mean that a venue is late.
    sampled = ~table.columns.isin(["funding_settlements", _EVENTS])
    oldest = table.loc[:, sampled].max(axis=1).fillna(pd.Timedelta(0))
    oldest = oldest.sort_values(ascending=False, kind="stable")
    table = table.loc[oldest.index]
    rows = [[str(venue), *map(_age, row)] for venue, row in zip(table.index, table.to_numpy(), strict=True)]
    late = (table > _LATE).to_numpy() & sampled
    count = int((oldest > _LATE).sum())
    kind = "late" if count else "soft"
    summary = f'<p class="{kind}">{count} of {len(table)} venues late: no row for two hours.</p>'
    late_cells = [[place + 1 for place in row.nonzero()[0]] for row in late]  # the first cell is the venue
    return summary + _table(["venue", *table.columns], rows, late_cells)


def _age(age: Any) -> str:
    age = pd.Timedelta(age)
    if age is pd.NaT:
        return _NONE
    minutes = age / pd.Timedelta(1, "min")
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _gaps(ledger: pd.DataFrame | None) -> str:
    """Return the venues and tables with missing rows or failed requests."""
    if ledger is None or ledger.empty:
        return "<p>Gaps are known only for an archive that a collector writes.</p>"
    troubled = ledger[(ledger["holes"] > 0) | (ledger["failed"] > 0)]
    if troubled.empty:
        return f"<p>None: {len(ledger)} pairs of venue and table, all without gaps.</p>"
    columns = ["exchange", "table", "lag_minutes", "holes", "failed", "last_error"]
    cells = [[_NONE if pd.isna(cell) else str(cell) for cell in row] for row in troubled[columns].to_numpy()]
    return _table(columns, cells)


def _spreads(view: View) -> str:
    """Return the symbols with the largest difference between the current rates of two venues."""
    frame = funding_now(view)
    several = frame.groupby(frame["symbol"].astype(str))["rate_bps_8h"].agg(["idxmin", "idxmax", "count"])
    rows = []
    for symbol, row in several[several["count"] > 1].iterrows():
        low = frame.loc[row["idxmin"]]
        high = frame.loc[row["idxmax"]]
        rows.append((float(high["rate_bps_8h"] - low["rate_bps_8h"]), symbol, low, high))
    rows.sort(key=lambda row: (-row[0], row[1]))
    if not rows:
        return "<p>A spread needs a symbol with rates on two venues.</p>"
    cells = [
        [
            symbol,
            f"{spread:.2f}",
            f"{low['exchange']} ({low['rate_bps_8h']:+.2f})",
            f"{high['exchange']} ({high['rate_bps_8h']:+.2f})",
        ]
        for spread, symbol, low, high in rows[:_SHOWN]
    ]
    return _table(["symbol", "spread [bps/8h]", "long on", "short on"], cells)


def _liquidations(view: View) -> str:
    if not view.has(*market.TABLES):
        return "<p>The source does not include liquidations.</p>"
    frame = market.liquidation_orders(view, view.now - _HOUR, view.now)
    if frame.empty:
        return "<p>None in the last hour.</p>"
    newest = frame.sort_values("time", ascending=False).head(_SHOWN)
    cells = [
        [f"{row.time:%H:%M:%S}", str(row.symbol), str(row.exchange), str(row.side), f"{row.value_usd:,.0f}"]
        for row in newest.itertuples()
    ]
    total = f"<p>{len(frame):,} orders, {frame['value_usd'].sum():,.0f} USD in the last hour.</p>"
    return total + _table(["time [UTC]", "symbol", "venue", "side", "value [USD]"], cells)


def _table(head: list[str], rows: list[list[str]], late: list[list[int]] | None = None) -> str:
    """Return an HTML table; `late` lists the positions of marked cells in each row."""
    # A name may break after an underscore, so that six columns fit the width of a tablet.
    names = "".join(f'<th scope="col">{escape(name).replace("_", "_<wbr>")}</th>' for name in head)
    body = []
    for number, row in enumerate(rows):
        marked = late[number] if late else []
        cells = []
        for place, cell in enumerate(row):
            if place in marked:
                kind = ' class="late"'
            elif cell == _NONE:
                kind = ' class="none"'
            else:
                kind = ""
            label = f' data-label="{escape(head[place])}"' if place else ""
            cells.append(f"<td{kind}{label}>{escape(cell)}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{names}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
