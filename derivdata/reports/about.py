"""Sections about the report and its data: summary, changes, provenance, coverage and suspicious values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata import bundle
from derivdata.analysis import chain as chains
from derivdata.analysis import quality
from derivdata.analysis.settlements import other_coins
from derivdata.errors import BundleError
from derivdata.plot import style
from derivdata.reports.data import Data, FetchedTable
from derivdata.reports.page import FLAT, Metric, Number, Section, bullets, count, listing, pct, usd
from derivdata.reports.positions import is_full
from derivdata.tables.frames import OTHER_COIN
from derivdata.tables.panels import panel

_KINDS = (
    ("wide", "Wide spreads and levels"),
    ("left", "Pairs that earn more than their costs, selected in the same window"),
    ("changed", "Changes"),
)


def summary_section(sections: Sequence[Section], symbols: Sequence[str]) -> Section:
    """Build the first screen: questions with a sentence and a figure each, key numbers and all findings."""
    summary = Section("Summary")
    numbers: list[Number] = []
    for section in sections:
        summary.answers += section.answers
        numbers += section.numbers
    by_symbol = []
    general = []
    for number in numbers:
        if number.symbol:
            by_symbol.append(number)
        else:
            words = f"{number.name}: {number.value} ({number.window})."
            general.append(words[0].upper() + words[1:])
    if by_symbol:
        summary.table(_key_numbers(by_symbol, symbols), "Key numbers")
    if general:
        summary.points(general)
    findings = _findings_by_kind(sections)
    if findings:
        summary.html(f"<details><summary>All findings</summary>{findings}</details>")
    if not summary.blocks and not summary.answers:
        summary.add_missing_note("There are no results to summarise; the sections state the reasons.")
    return summary


def _findings_by_kind(sections: Sequence[Section]) -> str:
    """Return the HTML of the lists of findings; empty without any."""
    lists = ""
    for kind, title in _KINDS:
        sentences: list[str] = []
        for section in sections:
            sentences += [finding.words for finding in section.findings if finding.kind == kind]
        if sentences:
            lists += f"<h3>{escape(title)}</h3>{bullets(sentences)}"
    return lists


def _key_numbers(numbers: Sequence[Number], symbols: Sequence[str]) -> pd.DataFrame:
    """Return one row per number, with a column for each symbol."""
    with_numbers = {number.symbol for number in numbers}
    columns = [symbol for symbol in symbols if symbol in with_numbers]
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for number in numbers:
        blank = {"number": number.name, **dict.fromkeys(columns, ""), "window": number.window}
        row = rows.setdefault((number.name, number.window), blank)
        row[number.symbol] = number.value
    return pd.DataFrame(list(rows.values()), columns=["number", *columns, "window"])


class Earlier(NamedTuple):
    """Numbers of an earlier report by name, and the time of its data."""

    metrics: Mapping[str, Metric]
    asof: pd.Timestamp


def clock_of(path: str | Path) -> pd.Timestamp:
    """Return the recorded clock of a bundle; raise if the recording never read it."""
    asof = bundle.info(path).manifest.asof
    if asof is None:
        raise BundleError(
            f"{path}: expected the recording of a report, got a recording without a clock; record the report "
            "again with --bundle"
        )
    return pd.Timestamp(asof)


def changes_section(sections: Sequence[Section], earlier: Earlier) -> Section:
    """Build the section that compares the numbers of this report and of an earlier one."""
    section = Section("Changes since the earlier report")
    section.text(f"Compared with the data of {earlier.asof:%Y-%m-%d %H:%M} UTC.")
    now = metrics_by_name(sections)
    rows = [_row(now[name], earlier.metrics[name]) for name in now if name in earlier.metrics]
    if not rows:
        section.add_missing_note("The two reports have no numbers in common.")
        return section
    columns = ["number", "then", "now", "change"]
    section.table(pd.DataFrame(rows, columns=columns), "All numbers of both reports")
    absent = [name for name in earlier.metrics if name not in now]
    if absent:
        section.add_missing_note(f"No longer available: {', '.join(absent)}.")
    return section


def metrics_by_name(sections: Sequence[Section]) -> dict[str, Metric]:
    """Return the metrics of all sections by name."""
    return {metric.name: metric for section in sections for metric in section.metrics}


def _row(now: Metric, then: Metric) -> tuple[str, str, str, str]:
    """Format both values and the change: in percent for levels in USD, else in the number's own unit."""
    if now.unit:
        unit = "points" if now.unit == "%" else now.unit
        change = f"{now.value - then.value:+.2f} {unit}"
        return now.name, f"{then.value:.2f} {now.unit}", f"{now.value:.2f} {now.unit}", change
    change = ""
    if then.value:
        change = pct(now.value / then.value - 1.0, 2, signed=True)
    return now.name, usd(then.value), usd(now.value), change


def provenance_section(fetched: Sequence[FetchedTable], missing: dict[str, str]) -> Section:
    """Build the last section: notices, attribution, missing data, and all requests."""
    section = Section("Where the data comes from")
    # Several tables have the same notice or attribution: dictionaries keep the first in order.
    notices: dict[str, None] = {}
    attributions: dict[str, None] = {}
    for table in fetched:
        notices |= dict.fromkeys(map(str, table.provenance["notices"]))
        if table.provenance["attribution"]:
            attributions[table.provenance["attribution"]] = None
    for words in notices:
        section.text(f"Notice of the source: {words}", "warn")
    for words in attributions:
        section.text(words)
    if missing:
        section.heading("Not available from the source")
        section.points(_missing_lines(missing))
    _requests(section, fetched)
    return section


def _requests(section: Section, fetched: Sequence[FetchedTable]) -> None:
    """Add the table of all requests, and the hash of all responses."""
    requests = []
    for table in fetched:
        for request in table.provenance["requests"]:
            row = (table.what, _request(request), request["as_of"], request["sha256"])
            requests.append(row)
    rows = pd.DataFrame(requests, columns=["what", "request", "answered [UTC]", "sha256"])
    if rows.empty:
        section.add_missing_note("No request received a response.")
        return
    joint_hash = hashlib.sha256("\n".join(sorted(rows["sha256"])).encode()).hexdigest()
    section.text(
        f"{count(len(rows), 'response')}, each with the hash of its body. Two reports with the same hash "
        f"of all responses are made from the same data: {joint_hash}."
    )
    shown = rows.assign(sha256=rows["sha256"].str[:16])
    section.table(shown, "All requests, the time of the response, and the start of its hash", fold=True)


def _missing_lines(missing: dict[str, str]) -> list[str]:
    """Return a line for each missing table, with all venues without options on a symbol in one line."""
    lines: list[str] = []
    venues: dict[str, list[str]] = {}
    for what, words in missing.items():
        subject, comma, venue = what.partition(", ")
        if comma and words.startswith("The source has no"):
            venues.setdefault(subject, []).append(venue)
        else:
            lines.append(words)
    no_options = [f"The source has no {subject} at {listing(names)}." for subject, names in venues.items()]
    return lines + no_options


def _request(request: dict[str, object]) -> str:
    """Return path and query of a request."""
    query = request["query"]
    if not isinstance(query, dict) or not query:
        return str(request["path"])
    pairs = "&".join(f"{name}={value}" for name, value in query.items())
    return f"{request['path']}?{pairs}"


if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WORST = 12
"""Maximum number of series in the table of incomplete series."""
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
    for symbol in data.report_options.symbols:
        tables[f"open interest of {symbol}"] = data.oi(symbol)
    examined: dict[str, pd.DataFrame] = {}
    summaries = []
    for what, table in tables.items():
        if table is not None:
            report = quality.quality(table, start=data.report_options.window.start)
            examined[what] = report
            summaries.append(f"{what}: {report.attrs['summary']}.")
    if not examined:
        section.add_missing_note("The source has no table over time, so nothing can be checked.")
    else:
        section.points(summaries)
        worst = _worst(examined)
        if len(worst):
            section.table(worst, f"Series with the most missing: {len(worst)}", formats=_FORMATS, fold=True)
        _answer(section, data, examined)
    _prices(section, data)
    _options(section, data)
    _liquidations(section, data)
    return section


def _prices(section: Section, data: Data) -> None:
    """Add the venues whose marks differ by more than 5 % from the others in the median of the window."""
    for symbol in data.report_options.symbols:
        table = data.prices(symbol)
        if table is None:
            continue
        marks = panel(table, "price_usd").isel(symbol=0)
        if marks.sizes["exchange"] < 2:
            continue
        factors = other_coins(marks).to_series().dropna()
        if factors.empty:
            section.text(f"Marks of {symbol} on {marks.sizes['exchange']} venues agree within 5 %.")
            continue
        venues = [f"{venue} (× {factor:.4g})" for venue, factor in factors.items()]
        words = f"{symbol} prices differ by more than 5 % from the median of venues: {listing(venues)}"
        if (abs(np.log(factors)) > OTHER_COIN).any():
            cause = "another coin or contract under the same ticker"
        else:
            cause = "a squeeze, a coin before its listing, or another coin under the same ticker"
        section.text(f"{words}. This is {cause}: do not rely on a spread with it.", "warn")
        section.finding("wide", f"{words}; {cause}.")


def _answer(section: Section, data: Data, examined: dict[str, pd.DataFrame]) -> None:
    """Add the findings to the first screen, with a figure of the number of series."""
    by_table = []
    series = 0
    expected = 0.0
    missing = 0.0
    for what, report in examined.items():
        by_table.append(_issues(report).assign(table=_SHORT.get(what, what)))
        series += len(report)
        expected += float(report["expected"].sum())
        missing += float(report["missing"].sum())
    findings = pd.concat(by_table, ignore_index=True)
    complete = "no points"
    if expected:
        complete = f"{100.0 * (1.0 - missing / expected):.2f} % of expected points"
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
    scope = f"{count(series, 'series')}, {data.report_options.period}"
    section.answer(_QUESTION, f"{'. '.join(words)}.", panel, scope)


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
    rows: list[tuple[str, str]] = []
    for issue, where in kinds.items():
        rows += [(issue, name) for name in names[where]]
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
        words = f"{start[row]:.0f}, e.g. {example}"
        look: dict[str, Any] = {"va": "center", "fontsize": 8, "annotation_clip": False}
        ax.annotate(words, (start[row], row), (4, 0), textcoords="offset points", **look)
    ax.set_xlim(0, max(np.max(start), 1.0))
    total = len(findings[["table", "series"]].drop_duplicates())
    series = sum(map(len, examined.values()))
    have = "has" if total == 1 else "have"
    title = f"{total} of {series} series {have} missing points or suspicious values"
    if np.sum(start) > total:
        title += "; some have several"
    style.dress(ax, title=title, x="affected series [count]", grid="x")
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
    names = {"exchange": "venue", "step_hours": "step [h]", "longest_gap_hours": "longest gap [h]"}
    return rows.astype({"symbol": str, "exchange": str}).rename(columns=names)


def _options(section: Section, data: Data) -> None:
    """Add the table of options used and dropped."""
    if "options" not in data.report_options.sections:
        return
    rows = []
    for symbol in data.report_options.symbols:
        for venue in data.option_venues(symbol):
            options = data.options(symbol, venue)
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
    """Return the dropped options of a chain and, for the displayed venue, the method of its smiles."""
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
        sources = set(map(str, quotes["forward_source"].values.ravel())) - {""}
        row["used"] = int(quotes["iv"].notnull().sum())
        row["forward from"] = ", ".join(sorted(sources)) or "none"
        row["arbitrages"] = len(chains.arbitrage(quotes))
    reasons = [f"{number} {reason.replace('_', ' ')}" for reason, number in dropped.items() if number]
    row["dropped"] = ", ".join(reasons) or "none"
    return row


def _liquidations(section: Section, data: Data) -> None:
    if "liquidations" not in data.report_options.sections:
        return
    events = data.liquidations()
    if events is None:
        return
    state = "is full, so that orders may be missing" if is_full(events) else "is complete"
    section.text(
        f"Liquidations: {count(len(events), 'order')} since {data.liquidations_start:%Y-%m-%d %H:%M} UTC; "
        f"the response {state}. Orders that a venue's own feed omits are unknown."
    )
