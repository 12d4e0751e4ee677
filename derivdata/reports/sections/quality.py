"""Data quality and coverage: points, missing points, and suspicious values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from derivdata.analysis import chain as chains
from derivdata.analysis import quality
from derivdata.analysis.price_agreement import other_coins
from derivdata.plot import style
from derivdata.reports.data import Data
from derivdata.reports.html_page import FLAT, Section, count, listing
from derivdata.reports.sections.liquidations import is_full
from derivdata.tables.coins import OTHER_COIN
from derivdata.tables.panels import panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WORST = 12
_QUESTION = "What is wrong with the data?"
_SHORT = {"funding rates": "rates", "funding settlements": "payments"}
_FORMATS = {"present": ",d", "missing": ",d", "gaps": ",d", "step [h]": ".3g", "longest gap [h]": ".1f"}


def quality_section(data: Data) -> Section:
    """Build the section on points, gaps and duplicates of each table, and on options not used."""
    section = data.section("Data quality and coverage")
    section.text(
        "Expected points are all points between the first and the last of a series at its own step. Outliers "
        "are more than twelve robust deviations from the median; they are counted and kept."
    )
    tables = {"funding rates": data.funding(), "funding settlements": data.settlements()}
    tables |= {f"open interest of {symbol}": data.oi(symbol) for symbol in data.report_options.symbols}
    start = data.report_options.window.start
    examined = {
        what: quality.quality(table, start=start) for what, table in tables.items() if table is not None
    }
    if not examined:
        section.add_missing_note("The source has no table over time, so nothing can be checked.")
    else:
        section.points([f"{what}: {report.attrs['summary']}." for what, report in examined.items()])
        worst = _worst(examined)
        if len(worst):
            section.table(worst, f"Series with the most missing: {len(worst)}", formats=_FORMATS, fold=True)
        _answer(section, data, examined)
    _prices(section, data)
    _options(section, data)
    _liquidations(section, data)
    return section


def _prices(section: Section, data: Data) -> None:
    """Name the venues whose marks differ by more than 5 % from the others in the median of the window."""
    for symbol in data.report_options.symbols:
        table = data.prices(symbol)
        marks = None if table is None else panel(table, "price_usd").isel(symbol=0)
        if marks is None or marks.sizes["exchange"] < 2:
            continue
        factors = other_coins(marks).to_series().dropna()
        if factors.empty:
            section.text(f"Marks of {symbol} on {marks.sizes['exchange']} venues agree within 5 %.")
            continue
        venues = listing([f"{venue} (× {factor:.4g})" for venue, factor in factors.items()])
        words = f"{symbol} prices differ by more than 5 % from the median of venues: {venues}"
        if (abs(np.log(factors)) > OTHER_COIN).any():
            cause = "another coin or contract under the same ticker"
        else:
            cause = "a squeeze, a coin before its listing, or another coin under the same ticker"
        section.text(f"{words}. This is {cause}: do not rely on a spread with it.", "warn")
        section.finding("wide", f"{words}; {cause}.")


def _answer(section: Section, data: Data, examined: dict[str, pd.DataFrame]) -> None:
    """State the findings on the first screen, with a figure of the number of series."""
    findings = pd.concat(
        [_issues(report).assign(table=_SHORT.get(what, what)) for what, report in examined.items()],
        ignore_index=True,
    )
    series = sum(map(len, examined.values()))
    expected = sum(float(report["expected"].sum()) for report in examined.values())
    missing = sum(float(report["missing"].sum()) for report in examined.values())
    complete = f"{100.0 * (1.0 - missing / expected):.2f} % of expected points" if expected else "no points"
    words = [f"{count(series, 'series')} with {complete}"]
    if data.missing:
        words.append(data.missing_words())
    if findings.empty:
        section.answer(_QUESTION, f"{'. '.join(words)}. No other findings.")
        return
    # A series is a table, symbol and venue, both in the sentence and in the bars.
    by_issue = findings.groupby("issue").size().sort_values(ascending=False)
    most = [f"{issue} in {count(int(number), 'series')}" for issue, number in by_issue.head(3).items()]
    words.append(f"Most findings: {listing(most)}")
    panel = section.panel(_draw_issues, findings, title="Findings in the data", size=FLAT, examined=examined)
    section.answer(_QUESTION, f"{'. '.join(words)}.", panel)


def _issues(report: pd.DataFrame) -> pd.DataFrame:
    """Return one row per finding and series."""
    names = report["symbol"].astype(str) + " " + report["exchange"].astype(str)
    is_unlike = (report["peer_lag"].fillna(0) > 0) | (report["other_symbol"].fillna(0) > 0)
    for factor in ("peer_scale", "peer_sign", "scale_change"):
        is_unlike |= report[factor].fillna(1.0) != 1.0
    kinds = {
        "points missing": report["missing"] > 0,
        "outliers": report["outliers"] > 0,
        "value stuck": report["stale"] > 0,
        "spikes": report["spikes"].fillna(0) > 0,
        "duplicates": report["duplicates"] > 0,
        "unlike other venues": is_unlike,
        "window cut short": report["clamped"].astype(bool),
    }
    rows = [{"issue": issue, "series": name} for issue, where in kinds.items() for name in names[where]]
    return pd.DataFrame(rows, columns=["issue", "series"])


def _draw_issues(
    findings: pd.DataFrame, *, examined: dict[str, pd.DataFrame], ax: Axes, source: Any = None
) -> Axes:
    """Draw the number of series with each kind of finding as bars, by table."""
    counts = findings.groupby(["issue", "table"])["series"].nunique().unstack(fill_value=0)
    counts = counts.loc[counts.sum(axis=1).sort_values(ascending=False, kind="stable").index]
    style.rows(ax, list(counts.index), 0.24)
    place = np.arange(len(counts))
    start = np.zeros(len(counts))
    for number, table in enumerate(counts.columns):
        length = counts[table].to_numpy(dtype=np.float64)
        color = style.PALETTE[number % len(style.PALETTE)]
        style.bars(ax, place, length, 0.62, start=start, horizontal=True, color=color, label=table)
        start += length
    for row, issue in enumerate(counts.index):
        example = findings.loc[findings["issue"] == issue, "series"].value_counts().index[0]
        ax.text(start[row], row, f"  {start[row]:.0f}: {example}", va="center", fontsize=8)
    ax.set_xlim(0, 1.9 * max(np.max(start), 1.0))
    total = len(set(findings["series"]))
    title = f"{total} pairs of symbol and venue with a finding"
    style.dress(ax, title=title, x="series, with an example [count]", grid="x")
    style.legend(ax, "above")
    style.footer(ax, *examined.values(), source=source)
    return ax


def _worst(examined: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the series with the most missing points."""
    columns = ["symbol", "exchange", "start", "end", "step_hours", "present", "missing", "gaps"]
    reports = []
    for what, report in examined.items():
        reports.append(report.assign(table=what)[["table", *columns, "longest_gap_hours"]])
    rows = pd.concat(reports, ignore_index=True)
    incomplete = rows[rows["missing"] > 0]
    rows = incomplete.sort_values("missing", ascending=False, kind="stable").head(_WORST)
    text = {name: rows[name].astype(str) for name in ("symbol", "exchange")}
    names = {"exchange": "venue", "step_hours": "step [h]", "longest_gap_hours": "longest gap [h]"}
    return rows.assign(**text).rename(columns=names)


def _options(section: Section, data: Data) -> None:
    """Add the table of options used and dropped."""
    rows = []
    for symbol in data.report_options.symbols:
        for venue in data.option_venues(symbol):
            options = data.options(symbol, venue) if "options" in data.report_options.sections else None
            if options is not None:
                rows.append(_chain(data, options, symbol, venue))
    if rows:
        section.text(
            "Out-of-the-money options are used, one per strike. Static arbitrage between quotes (a call "
            "above a call of a lower strike, a butterfly below zero) is counted for the venue that is shown, "
            "and not repaired."
        )
        formats = dict.fromkeys(("options", "used", "arbitrages"), ",.0f")
        section.table(pd.DataFrame(rows), "Options used and dropped, by venue", formats=formats, fold=True)


def _chain(data: Data, options: pd.DataFrame, symbol: str, venue: str) -> dict[str, object]:
    """Return the dropped options of a chain and, for the venue that is shown, how its smiles were made."""
    dropped = dict(options.attrs["dropped"])
    row: dict[str, object] = {
        "symbol": symbol,
        "venue": venue,
        "options": len(options) + sum(dropped.values()),
        "used": np.nan,
        "forward from": "",
        "without open interest": int(options["open_interest"].isna().sum()),
        "arbitrages": np.nan,
    }
    if data.has_quotes(symbol, venue):
        quotes = data.quotes(symbol, venue)
        dropped = json.loads(quotes.attrs["dropped"])
        sources = sorted(set(map(str, quotes["forward_source"].values.ravel())) - {""})
        row["used"] = int(quotes["iv"].notnull().sum())
        row["forward from"] = ", ".join(sources) or "none"
        row["arbitrages"] = len(chains.arbitrage(quotes))
    reasons = [f"{number} {reason.replace('_', ' ')}" for reason, number in dropped.items() if number]
    row["dropped"] = ", ".join(reasons) or "none"
    return row


def _liquidations(section: Section, data: Data) -> None:
    events = data.liquidations() if "liquidations" in data.report_options.sections else None
    if events is None:
        return
    state = "is full, so that orders may be missing" if is_full(events) else "is complete"
    section.text(
        f"Liquidations: {count(len(events), 'order')} since {data.liquidations_start:%Y-%m-%d %H:%M} UTC; "
        f"the response {state}. Orders that a venue's own feed omits are unknown."
    )
