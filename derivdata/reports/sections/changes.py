"""What changed since an earlier report: the numbers of both, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from derivdata.client import bundle
from derivdata.errors import BundleError
from derivdata.reports.formatting import pct, usd
from derivdata.reports.html_page import Metric, Section

__all__ = ["Earlier", "changes_section", "clock_of"]


class Earlier:
    """Numbers of an earlier report, and the instant of its data."""

    def __init__(self, metrics: Sequence[Metric], asof: pd.Timestamp) -> None:
        self.metrics: Mapping[str, Metric] = {metric.name: metric for metric in metrics}
        self.asof = asof


def clock_of(path: str | Path) -> pd.Timestamp:
    """Return the recorded clock of a bundle.

    Raises
    ------
    BundleError
        It is not a bundle, or the recording never asked for the time.
    """
    asof = bundle.info(path).manifest.asof
    if asof is None:
        raise BundleError(f"{path}: holds no time: it is no recording of a report")
    return pd.Timestamp(asof)


def changes_section(sections: Sequence[Section], earlier: Earlier) -> Section:
    """Build the section that compares every number of this report with that of the earlier one."""
    section = Section("What changed since")
    now = {metric.name: metric for one in sections for metric in one.metrics}
    shared = [name for name in now if name in earlier.metrics]
    section.text(f"Compared with the data of {earlier.asof:%Y-%m-%d %H:%M} UTC.")
    if not shared:
        section.add_missing_note("The two reports have no number in common.")
        return section
    rows = [_row(now[name], earlier.metrics[name]) for name in shared]
    section.table(pd.DataFrame(rows, columns=["number", "then", "now", "change"]))
    absent = [name for name in earlier.metrics if name not in now]
    if absent:
        section.add_missing_note(f"No longer there: {', '.join(absent)}.")
    return section


def _row(now: Metric, then: Metric) -> tuple[str, str, str, str]:
    """Write both values: levels in USD change in percent, rates and volatilities in their own unit."""
    if now.unit:
        change = f"{now.value - then.value:+.2f} {'points' if now.unit == '%' else now.unit}"
        return now.name, f"{then.value:.2f} {now.unit}", f"{now.value:.2f} {now.unit}", change
    change = pct(now.value / then.value - 1.0, 2, signed=True) if then.value else ""
    return now.name, usd(then.value), usd(now.value), change
