"""The main job: a source's data as figures and tables in one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import derivdata
from derivdata import times
from derivdata.arguments import typed
from derivdata.files import replace_file
from derivdata.reports.data import Data
from derivdata.reports.html_page import render_page
from derivdata.reports.report_options import Fees, ReportOptions, parse_options
from derivdata.reports.sections import BY_NAME, provenance_section, summary_section

__all__ = ["report"]


def __dir__() -> list[str]:
    return __all__


_SYNTHETIC = "Synthetic data, generated for demonstration: no market ever looked like this."


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
        The HTML file; it holds everything that it shows and loads nothing. It is replaced atomically.
    window
        Lookback of the histories from `derivdata.asof`, such as ``"30d"``.
    venues
        Venues to report on; None is all.
    fees
        Cost of one trade [bps of its notional]: one number, or one by venue with that of all the rest under
        ``"others"``. None assumes 5, and the report says so.
    expiries
        Days of expiry of the options to report on; None is all.
    sections
        Of ``funding``, ``carry``, ``oi``, ``options``, ``liquidations``, ``quality``; None is all. Summary
        and provenance are always there.
    bundle
        Name of the bundle that the answers are recorded in or replayed from, for the last line.

    Returns
    -------
    Path
        The file. It states what the source lacks. The same data gives the same bytes, except for the last
        line.

    Raises
    ------
    ValueError, TypeError
        The window is not a lookback, no symbol is given, a section is unknown, a fee is not a cost in bps; or
        the source has nothing of a symbol and does not list it.
    FileNotFoundError
        The folder of `out` does not exist; nothing is fetched.
    NotConnected, FetchError, SchemaError
        The source cannot be asked, or its answer is not what the API document describes; nothing is written.
    """
    path = Path(out)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {str(path.parent)!r} to write {path.name} into: make it first"
        )
    wanted = parse_options(
        symbols, window=window, venues=venues, fees=fees, expiries=expiries, sections=sections
    )
    data = Data(wanted)
    chosen = [BY_NAME[name](data) for name in wanted.sections]
    data.require_symbols()
    parts = [
        summary_section(chosen, synthetic=data.synthetic),
        *chosen,
        provenance_section(data.fetched, data.missing),
    ]
    when = f"{wanted.window.end:%Y-%m-%d %H:%M} UTC"
    answers = f" Answers in {Path(bundle).name}." if bundle is not None else ""
    text = render_page(
        f"Crypto derivatives: {', '.join(wanted.symbols)}",
        _subtitle(wanted, data),
        parts,
        f"Made with derivdata {derivdata.__version__} from data as of {when}.{answers}",
        banner=_SYNTHETIC if data.synthetic else "",
    )
    replace_file(path, text.encode(), mode=0o666)
    return path


def _subtitle(wanted: ReportOptions, data: Data) -> str:
    first = data.fetched[0].provenance if data.fetched else {}
    window = f"{wanted.window.start:%Y-%m-%d %H:%M} to {wanted.window.end:%Y-%m-%d %H:%M} UTC"
    words = [f"Source: {first.get('source', 'none answered')}", f"Window: {window}"]
    if wanted.venues is not None:
        words.append(f"Venues: {', '.join(wanted.venues)}")
    if first.get("attribution"):
        words.append(first["attribution"])
    return ". ".join(words) + "."
