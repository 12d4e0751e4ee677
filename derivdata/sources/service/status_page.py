"""One page on the state of the service: sources, freshness and gaps, widest spreads, last liquidations."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd

from derivdata.sources.service import fills
from derivdata.sources.service.market import funding_now
from derivdata.support.text import escape_controls

if TYPE_CHECKING:
    from derivdata.sources.service.view import View

REFRESH_SECONDS = 30
_SHOWN = 12
_DAY, _HOUR = pd.Timedelta(1, "D"), pd.Timedelta(1, "h")
_LATE = pd.Timedelta(2, "h")
_FRESH = ("funding_history", "funding_settlements", "oi_history", "prices_history", "options_snapshot")
_EVENTS = "liquidations_events"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5c6675; --paper: #fff; --line: #d9dee5;
  --late: #a33b00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaf0; --soft: #9aa5b4; --paper: #12161c; --line: #2c3440; --late: #ffb27a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem 1.2rem 3rem; max-width: 64rem; background: var(--paper);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: .2rem 0; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .3rem; }
nav a { color: inherit; margin-right: .9rem; white-space: nowrap; }
.soft { color: var(--soft); } .late { color: var(--late); font-weight: 600; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .86rem; }
th, td { padding: .2rem .7rem .2rem 0; text-align: left; border-bottom: 1px solid var(--line); }
th { color: var(--soft); vertical-align: bottom; }
td { font-variant-numeric: tabular-nums; overflow-wrap: anywhere; } td:first-child { white-space: nowrap; }
@media (max-width: 700px) {
  table, tbody { display: block; } thead { display: none; }
  tr { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .25rem .8rem;
    border-bottom: 1px solid var(--line); padding: .4rem 0; }
  td { display: block; border: 0; padding: 0; }
  td:first-child { grid-column: 1 / -1; font-weight: 600; white-space: normal; }
  td[data-label]::before { display: block; content: attr(data-label); color: var(--soft);
    font-weight: 400; font-size: .75rem; }
  td.none, td:empty { display: none; } }
"""
_NONE = "–"
_SECTIONS = {
    "freshness": "Freshness",
    "gaps": "Gaps",
    "spreads": "Widest funding spreads",
    "liquidations": "Last liquidations",
}


def status_page(view: View, ledger: pd.DataFrame | None) -> str:
    """Return the page as HTML; it loads nothing, runs no script, and is loaded again after 30 seconds.

    `ledger` is what `collect.reporting.status` says of an archive that is collected into; else None.
    """
    store = view.store
    synthetic = ' <span class="late">Synthetic data.</span>' if store.synthetic else ""
    title = f"derivdata: {store.label}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">As of {view.now:%Y-%m-%d %H:%M:%S} UTC, loaded again every {REFRESH_SECONDS} '
        f"seconds. Data since {store.start:%Y-%m-%d %H:%M} UTC; {len(store.tables())} tables.{synthetic}</p>",
        "<nav>" + " ".join(f'<a href="#{name}">{title}</a>' for name, title in _SECTIONS.items()) + "</nav>",
        _heading("freshness"),
        _freshness(view),
        _heading("gaps"),
        _gaps(ledger),
        _heading("spreads"),
        _spreads(view),
        _heading("liquidations"),
        _liquidations(view),
    ]
    return escape_controls(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>"
        + "\n".join(parts)
        + "</body></html>\n",
        keep="\n\t",
    )


def _heading(name: str) -> str:
    return f'<h2 id="{name}">{_SECTIONS[name]}</h2>'


def _freshness(view: View) -> str:
    """Return a table of the age of the newest row by venue and table; over two hours it is marked."""
    ages: dict[str, pd.Series] = {}
    for name in _FRESH:
        if view.has(name):
            frame = view.latest(name, view.now, within=_DAY)
            if len(frame):
                newest = frame.groupby(frame["exchange"].astype(str))["time"].max()
                ages[name] = view.now - newest
    if view.has(*fills.TABLES):
        frame = fills.events(view, view.now - _DAY, view.now)
        if len(frame):
            ages[_EVENTS] = view.now - frame.groupby(frame["exchange"].astype(str))["time"].max()
    if not ages:
        return "<p>No row of the last day.</p>"
    table = pd.DataFrame(ages).sort_index()
    rows = [[str(venue), *map(_age, row)] for venue, row in zip(table.index, table.to_numpy(), strict=True)]
    sampled = ~table.columns.isin(["funding_settlements", _EVENTS])  # the others come when they come
    late = (table > _LATE).to_numpy() & sampled
    return _table(
        ["venue", *table.columns], rows, [[place + 1 for place in row.nonzero()[0]] for row in late]
    )


def _age(age: Any) -> str:
    age = pd.Timedelta(age)
    if age is pd.NaT:
        return _NONE
    minutes = age / pd.Timedelta(1, "min")
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _gaps(ledger: pd.DataFrame | None) -> str:
    if ledger is None or ledger.empty:
        return "<p>This source keeps no ledger of requests: gaps are known where a collector writes.</p>"
    troubled = ledger[(ledger["holes"] > 0) | (ledger["failed"] > 0)]
    if troubled.empty:
        return f"<p>None: {len(ledger)} pairs of venue and table were answered without a hole.</p>"
    columns = ["exchange", "table", "lag_minutes", "holes", "failed", "last_error"]
    return _table(columns, troubled[columns].astype(str).to_numpy().tolist())


def _spreads(view: View) -> str:
    """Return the symbols with the largest difference between two venues' rates now."""
    frame = funding_now(view)
    several = frame.groupby(frame["symbol"].astype(str))["rate_bps_8h"].agg(["idxmin", "idxmax", "count"])
    rows = []
    for symbol, row in several[several["count"] > 1].iterrows():
        low, high = frame.loc[row["idxmin"]], frame.loc[row["idxmax"]]
        rows.append((float(high["rate_bps_8h"] - low["rate_bps_8h"]), symbol, low, high))
    rows.sort(key=lambda one: (-one[0], one[1]))
    if not rows:
        return "<p>No symbol has a rate on two venues.</p>"
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
    if not view.has(*fills.TABLES):
        return "<p>The source has no liquidations.</p>"
    frame = fills.events(view, view.now - _HOUR, view.now)
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
    """Return a table; `late` lists the places of marked cells, row by row.

    On a phone a row becomes a block: there the names of its cells are shown, and cells without a value not.
    """
    # A name may break after an underscore: six columns of names of tables then fit a tablet.
    names = "".join(f'<th scope="col">{escape(name).replace("_", "_<wbr>")}</th>' for name in head)
    body = []
    for number, row in enumerate(rows):
        marked = late[number] if late else []
        cells = []
        for place, cell in enumerate(row):
            kind = ' class="late"' if place in marked else ' class="none"' if cell == _NONE else ""
            label = f' data-label="{escape(head[place])}"' if place else ""
            cells.append(f"<td{kind}{label}>{escape(cell)}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{names}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
