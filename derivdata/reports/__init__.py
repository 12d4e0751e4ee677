"""The main job: a source's data as figures and tables in one HTML file."""

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
from derivdata.client.bundle.reading import Bundle
from derivdata.client.bundle.recording import Replay
from derivdata.client.transport import SESSION
from derivdata.errors import NotRecorded
from derivdata.reports.data import Data
from derivdata.reports.html_page import Section, render_page
from derivdata.reports.report_options import Fees, ReportOptions, parse_options
from derivdata.reports.sections import about
from derivdata.reports.sections.carry import carry_section
from derivdata.reports.sections.funding import funding_section
from derivdata.reports.sections.liquidations import liquidations_section
from derivdata.reports.sections.open_interest import oi_section
from derivdata.reports.sections.options import options_section
from derivdata.reports.sections.quality import quality_section
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
"""Sections whose numbers are compared with those of an earlier report."""

_SYNTHETIC = "Synthetic data, generated for demonstration: no market ever looked like this."


@typed
def report(
    symbols: str | Sequence[str],
    *,
    out: str | Path = "report.html",
    window: str = "30d",
    venues: str | Sequence[str] | None = None,
    fee_bps: Fees | None = None,
    expiries: Sequence[times.Instant] | None = None,
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
        The HTML file; it holds everything that it shows and loads nothing. It is replaced atomically.
    window
        Lookback of the histories from `derivdata.asof`, such as ``"30d"``.
    venues
        Venues to report on; None is all.
    fee_bps
        Cost of one trade [bps of its notional]: one number, or one by venue with that of all the rest under
        ``"others"``. None assumes 5, and the report says so.
    expiries
        Days of expiry of the options to report on; None is all.
    sections
        Of ``funding``, ``carry``, ``oi``, ``options``, ``liquidations``, ``quality``; None is all. Summary
        and provenance are always there.
    source_text
        Who made the data and under which licence, in words, for the head of the page and below each figure;
        None is what the source calls itself, an archive's folder for instance.
    bundle
        Name of the bundle that the answers are recorded in or replayed from, for the last line.
    previous
        Bundle of an earlier report (``derivdata report ... --bundle``) to compare with: a section states how
        funding, open interest, prices, volatility and liquidations have changed since.

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
        The request failed, or the response differs from the API document; nothing is written.
    """
    path = Path(out)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"the folder {str(path.parent)!r} for {path.name} does not exist: create it first"
        )
    wanted = parse_options(
        symbols,
        window=window,
        venues=venues,
        fee_bps=fee_bps,
        expiries=expiries,
        sections=sections,
        source_text=source_text,
    )
    earlier = None if previous is None else _earlier(previous, wanted)
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
        return _write(path, wanted, earlier, bundle, arguments)


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Collect cycles a hundred times less often: a report makes millions of objects that it keeps."""
    thresholds = gc.get_threshold()
    try:
        gc.set_threshold(100 * max(thresholds[0], 1), *thresholds[1:])
        yield
    finally:
        gc.set_threshold(*thresholds)


def _write(
    path: Path,
    wanted: ReportOptions,
    earlier: about.Earlier | None,
    bundle: str | Path | None,
    arguments: Mapping[str, Any],
) -> Path:
    data = Data(wanted)
    chosen = [_SECTIONS[name](data) for name in wanted.sections]
    data.require_symbols()
    parts = [
        about.summary_section(chosen, wanted.symbols),
        *([] if earlier is None else [about.changes_section(chosen, earlier)]),
        *chosen,
        about.provenance_section(data.fetched, data.missing),
    ]
    when = f"{wanted.window.end:%Y-%m-%d %H:%M} UTC"
    answers = f" Answers in {Path(bundle).name}." if bundle is not None else ""
    text = render_page(
        f"Crypto derivatives: {', '.join(wanted.symbols)}",
        _subtitle(wanted, data),
        parts,
        f"Made with derivdata {derivdata.__version__} from data as of {when}.{answers}",
        banner=_SYNTHETIC if data.synthetic else "",
        card=card_of_report(arguments, {m.name: m.value for section in chosen for m in section.metrics}),
    )
    replace_file(path, text.encode(), mode=0o666)
    return path


def _earlier(previous: str | Path, wanted: ReportOptions) -> about.Earlier:
    """Return the numbers of the report that a bundle recorded, of the symbols of this one."""
    length = wanted.window.end - wanted.window.start
    asof = about.clock_of(previous)
    observer = SESSION.observer
    try:
        SESSION.observer = None  # the replayed responses do not belong to this report
        with Replay(Bundle(previous)) as replayed:
            recorded = replayed.about.get("report", {})
            then = dataclasses.replace(
                wanted,
                window=times.window(recorded.get("window", f"{round(length / pd.Timedelta(1, 'h'))}h"), asof),
                venues=None if recorded.get("venues") is None else tuple(recorded["venues"]),
            )
            data = Data(then, draws=False)
            metrics = []
            for name in _COMPARED:
                if name in wanted.sections:
                    with suppress(NotRecorded):
                        metrics += _SECTIONS[name](data).metrics
    finally:
        SESSION.observer = observer
    return about.Earlier({metric.name: metric for metric in metrics}, asof)


def _subtitle(wanted: ReportOptions, data: Data) -> str:
    first = data.fetched[0].provenance if data.fetched else {}
    window = f"{wanted.window.start:%Y-%m-%d %H:%M} to {wanted.window.end:%Y-%m-%d %H:%M} UTC"
    source = wanted.source_text or first.get("source", "no response")
    words = [f"Source: {source}", f"Window: {window}"]
    if wanted.venues is not None:
        words.append(f"Venues: {', '.join(wanted.venues)}")
    if first.get("attribution"):
        words.append(first["attribution"])
    return ". ".join(words) + "."
