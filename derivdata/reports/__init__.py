"""The main job: a source's data as figures and tables in one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import derivdata
from derivdata import times
from derivdata.arguments import typed
from derivdata.reports.data import Data
from derivdata.reports.html_page import render_page
from derivdata.reports.report_options import Fees, ReportOptions, parse_options
from derivdata.reports.sections import BY_NAME, provenance_section, summary_section

__all__ = ["report"]


@typed
def report(
    symbols: str | Sequence[str],
    *,
    out: str | Path = "report.html",
    window: str = "30d",
    venues: str | Sequence[str] | None = None,
    fees: Fees | None = None,
    expiries: Sequence[times.Instant] | None = None,
    sections: Sequence[str] | None = None,
    bundle: str | Path | None = None,
) -> Path:
    """Write a report on the connected source.

    Parameters
    ----------
    symbols
        Assets, ``["BTC", "ETH"]``.
    out
        The HTML file; it holds everything that it shows and loads nothing.
    window
        Lookback of the histories from `derivdata.asof`, such as ``"30d"``.
    venues
        Venues that it is held to; None is all.
    fees
        Cost of one trade [bps of its notional]: one number, or one by venue with that of all the rest under
        ``"others"``. None assumes 5, and the report says so.
    expiries
        Days of expiry that the options are held to; None is all.
    sections
        Of ``funding``, ``carry``, ``oi``, ``options``, ``liquidations``, ``quality``; None is all. Summary
        and provenance are always there.
    bundle
        Name of the bundle that the answers are recorded in or replayed from, for the last line.

    Returns
    -------
    Path
        The file. What the source lacks is said in it. The same data gives the same bytes, but for the last
        line.

    Raises
    ------
    ValueError, TypeError
        The window is not a lookback, no symbol is given, a section is unknown, a fee is no cost in bps.
    NotConnected, FetchError, SchemaError
        The source cannot be asked, or gives something else than the API document says; nothing is written.
    """
    wanted = parse_options(
        symbols, window=window, venues=venues, fees=fees, expiries=expiries, sections=sections
    )
    data = Data(wanted)
    made = [BY_NAME[name](data) for name in wanted.sections]
    parts = [summary_section(made), *made, provenance_section(data.seen, data.lacks)]
    text = render_page(
        f"Crypto derivatives: {', '.join(wanted.symbols)}",
        _subtitle(wanted, data),
        parts,
        _made(wanted, bundle),
    )
    path = Path(out)
    path.write_text(text, encoding="utf-8")
    return path


def _subtitle(wanted: ReportOptions, data: Data) -> str:
    said = data.seen[0].said if data.seen else {}
    span = f"{wanted.window.start:%Y-%m-%d %H:%M} to {wanted.window.end:%Y-%m-%d %H:%M} UTC"
    words = [f"Source: {said.get('source', 'none answered')}", f"Window: {span}"]
    if wanted.venues is not None:
        words.append(f"Venues: {', '.join(wanted.venues)}")
    if said.get("attribution"):
        words.append(said["attribution"])
    if said.get("synthetic"):
        words.insert(0, "Synthetic data, made up for demonstration")
    return ". ".join(words) + "."


def _made(wanted: ReportOptions, bundle: str | Path | None) -> str:
    kept = f" Answers in {Path(bundle).name}." if bundle is not None else ""
    when = f"{wanted.window.end:%Y-%m-%d %H:%M} UTC"
    return f"Made with derivdata {derivdata.__version__} from data as of {when}.{kept}"
