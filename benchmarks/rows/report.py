"""The report, from answers in the cache to a file."""

from __future__ import annotations

import resource
import time
from functools import partial
from pathlib import Path
from unittest import mock

import derivdata as dd
from benchmarks.row import OURS, Check, Made, Row, stated
from derivdata.reports import drawing

__all__ = ["ROWS"]

_TWO, _TEN = ("BTC", "ETH"), ("BTC", "ETH", "SOL", "HYPE", "DOGE", "ZEC", "XRP", "LTC", "TRX", "UNI")
_ONE_PROCESS = "one process"
_MOST_SECONDS = {_TWO: 20.0, _TEN: 80.0}
"""Of processor time, both processes, on a busy machine: half of it by the clock on two cores."""


def _report(folder: Path, symbols: tuple[str, ...]) -> Made:
    dd.connect("sample")
    texts: dict[int, bytes] = {}
    spent: dict[int, float] = {}

    def made_on(processors: int) -> None:
        began = _spent()
        with mock.patch.object(drawing, "processors", return_value=processors):
            texts[processors] = dd.report(symbols, out=folder / "report.html").read_bytes()
        spent[processors] = _spent() - began

    made_on(2)  # the sample makes its data, and the cache keeps the answers

    def checks() -> list[Check]:
        most, megabytes = _MOST_SECONDS[symbols], len(texts[2]) / 1e6 / len(symbols)
        alike = len(set(texts.values())) == 1
        return [
            Check("processor seconds, both processes", f"{spent[2]:.1f}", f"≤ {most:g}", spent[2] <= most),
            Check("MB a symbol", f"{megabytes:.2f}", "≤ 2", megabytes <= 2.0),
            Check("bytes with and without", "the same" if alike else "differ", "the same", alike),
        ]

    return Made({OURS: lambda: made_on(2), _ONE_PROCESS: lambda: made_on(1)}, checks=checks)


def _spent() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + used.ru_utime + used.ru_stime


ROWS = [
    Row(
        name,
        what="`dd.report`, all sections, by the clock, figures drawn in a second process",
        given=f"{words} symbols of the sample, 30 days, answers in the cache",
        make=partial(_report, symbols=symbols),
        goals=goals,
        clock="wall",
        rounds=1,
    )
    for name, words, symbols, goals in (
        ("report", "two", _TWO, {_ONE_PROCESS: stated()}),  # the ratio is that of the idle processors
        ("report-ten", "ten", _TEN, {}),
    )
]
