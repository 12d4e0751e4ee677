"""Reports: figures and tables of a source's data in one HTML file."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd

import derivdata
from derivdata.cards import card_of_report
from derivdata.client.bundle.files import Bundle
from derivdata.client.bundle.recording import Replay
from derivdata.client.transport import SESSION
from derivdata.errors import NotRecorded
from derivdata.reports import about
from derivdata.reports.about import quality_section
from derivdata.reports.carry import carry_section, funding_section
from derivdata.reports.data import Data, Fees, ReportOptions, parse_options
from derivdata.reports.options import options_section
from derivdata.reports.page import Section, render_page
from derivdata.reports.positions import liquidations_section, oi_section
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.files import replace_file

__all__ = ["report"]


_SECTIONS: dict[str, Callable[[Data], Section]] = {
    "funding": funding_section,
    "carry": carry_section,
    "oi": oi_section,
    "options": options_section,
    "liquidations": liquidations_section,
    "quality": quality_section,
}

_COMPARED = ("funding", "oi", "options", "liquidations")
"""Sections whose numbers are compared with an earlier report."""

_SYNTHETIC = "Synthetic data, generated for demonstration: no market ever looked like this."


@typed
def report(
    symbols: str | Sequence[str],
    *,
    out: str | Path = "report.html",
    window: str = "30d",
    venues: str | Sequence[str] | None = None,
    fee_bps: Fees | None = None,
    expiries: Sequence[times.TimeLike] | None = None,
    sections: Sequence[str] | None = None,
    source_text: str | None = None,
    bundle: str | Path | None = None,
    previous: str | Path | None = None,
) -> Path:
    """Write a report on the connected source.

    Parameters
    ----------
    symbols
        Assets, ``["BTC", "ETH"]``.
    out
        The HTML file. It is self-contained and loads nothing. It is replaced atomically.
    window
        Lookback of the histories from `derivdata.asof`, such as ``"30d"``.
    venues
        Venues to report on; None is all.
    fee_bps
        Cost of one trade [bps of its notional]: one number, or a number by venue, with ``"others"`` for all
        other venues. None assumes 5, which the report states.
    expiries
        Days of expiry of the options to report on; None is all.
    sections
        Sections to write: ``funding``, ``carry``, ``oi``, ``options``, ``liquidations``, ``quality``; None is
        all. Summary and provenance are always included.
    source_text
        Source and licence of the data, for the head of the page and below each figure. None is the source's
        own name, such as an archive's folder.
    bundle
        Name of the bundle that the responses are recorded in or replayed from, for the last line.
    previous
        Bundle of an earlier report (``derivdata report ... --bundle``) to compare with. A section then shows
        the changes of funding, open interest, prices, volatility and liquidations.

    Returns
    -------
    Path
        The file. It names the data that the source does not have. The same data gives the same bytes, except
        for the last line.

    Raises
    ------
    ValueError, TypeError
        The window is not a lookback, `symbols` is empty, a section is unknown, or a fee is not a cost in bps;
        or the source does not have data of a symbol and does not list it.
    FileNotFoundError
        The folder of `out` does not exist; nothing is fetched.
    NotConnected, FetchError, SchemaError
        The request failed, or the response differs from the API document; nothing is written.
    """
    path = Path(out)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"the folder {str(path.parent)!r} for {path.name} does not exist: create it first"
        )
    options = parse_options(
        symbols,
        window=window,
        venues=venues,
        fee_bps=fee_bps,
        expiries=expiries,
        sections=sections,
        source_text=source_text,
    )
    earlier = None if previous is None else _earlier(previous, options)
    arguments = {
        "symbols": symbols,
        "window": window,
        "venues": venues,
        "fee_bps": fee_bps,
        "expiries": expiries,
        "sections": sections,
        "source_text": source_text,
    }
    with _rarely_collected():
        return _write(path, options, earlier, bundle, arguments)


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Run the garbage collector a hundred times less often.

    A report keeps millions of objects alive, and each collection would scan them again.
    """
    thresholds = gc.get_threshold()
    try:
        gc.set_threshold(100 * max(thresholds[0], 1), *thresholds[1:])
        yield
    finally:
        gc.set_threshold(*thresholds)


def _write(
    path: Path,
    options: ReportOptions,
    earlier: about.Earlier | None,
    bundle: str | Path | None,
    arguments: Mapping[str, Any],
) -> Path:
    """Compute all sections and write the page."""
    data = Data(options)
    sections = [_SECTIONS[name](data) for name in options.sections]
    data.require_symbols()
    page = [about.summary_section(sections, options.symbols)]
    if earlier is not None:
        page.append(about.changes_section(sections, earlier))
    page += sections
    page.append(about.provenance_section(data.fetched, data.missing))
    when = f"{options.window.end:%Y-%m-%d %H:%M} UTC"
    recording = ""
    if bundle is not None:
        recording = f" Responses in {Path(bundle).name}."
    figures = {name: metric.value for name, metric in about.metrics_by_name(sections).items()}
    text = render_page(
        f"Crypto derivatives: {', '.join(options.symbols)}",
        _subtitle(options, data),
        page,
        f"Made with derivdata {derivdata.__version__} from data as of {when}.{recording}",
        banner=_SYNTHETIC if data.synthetic else "",
        card=card_of_report(arguments, figures),
    )
    replace_file(path, text.encode(), mode=0o666)
    return path


def _earlier(previous: str | Path, options: ReportOptions) -> about.Earlier:
    """Return the numbers of the report that a bundle recorded, for the symbols of this report."""
    length = options.window.end - options.window.start
    asof = about.clock_of(previous)
    observer = SESSION.observer
    try:
        SESSION.observer = None  # the replayed responses do not belong to this report
        with Replay(Bundle(previous)) as replayed:
            recorded = replayed.about.get("report", {})
            lookback = recorded.get("window", f"{round(length / pd.Timedelta(1, 'h'))}h")
            earlier_options = dataclasses.replace(
                options,
                window=times.window(lookback, asof),
                venues=None if recorded.get("venues") is None else tuple(recorded["venues"]),
            )
            data = Data(earlier_options, draws=False)
            metrics = []
            for name in _COMPARED:
                if name in options.sections:
                    with suppress(NotRecorded):
                        metrics += _SECTIONS[name](data).metrics
    finally:
        SESSION.observer = observer
    return about.Earlier({metric.name: metric for metric in metrics}, asof)


def _subtitle(options: ReportOptions, data: Data) -> str:
    """Return source, window, venues and attribution in one line."""
    first = data.fetched[0].provenance if data.fetched else {}
    window = f"{options.window.start:%Y-%m-%d %H:%M} to {options.window.end:%Y-%m-%d %H:%M} UTC"
    source = options.source_text or first.get("source", "no response")
    words = [f"Source: {source}", f"Window: {window}"]
    if options.venues is not None:
        words.append(f"Venues: {', '.join(options.venues)}")
    if first.get("attribution"):
        words.append(first["attribution"])
    return ". ".join(words) + "."
