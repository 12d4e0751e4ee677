"""The report, from cached responses to a file."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import derivdata as dd
from benchmarks.row import OURS, Check, Made, Row

__all__ = ["ROWS"]

_TWO, _TEN = ("BTC", "ETH"), ("BTC", "ETH", "SOL", "HYPE", "DOGE", "ZEC", "XRP", "LTC", "TRX", "UNI")
_MAX_SECONDS = {_TWO: 12.0, _TEN: 50.0}
"""Processor time, on a busy machine."""


def _report(folder: Path, symbols: tuple[str, ...]) -> Made:
    dd.connect("sample")
    made: dict[str, float] = {}

    def report() -> None:
        began = time.process_time()
        made["bytes"] = float(len(dd.report(symbols, out=folder / "report.html").read_bytes()))
        made["seconds"] = time.process_time() - began

    report()  # the sample makes its data, and the cache keeps the responses

    def checks() -> list[Check]:
        most, megabytes = _MAX_SECONDS[symbols], made["bytes"] / 1e6 / len(symbols)
        return [
            Check("processor seconds", f"{made['seconds']:.1f}", f"≤ {most:g}", made["seconds"] <= most),
            Check("MB a symbol", f"{megabytes:.2f}", "≤ 1.25", megabytes <= 1.25),
        ]

    return Made({OURS: report}, checks=checks)


ROWS = [
    Row(
        name,
        what="`dd.report`, all sections",
        given=f"{words} symbols of the sample, 30 days, answers in the cache",
        make=partial(_report, symbols=symbols),
        goals={},
        rounds=1,
    )
    for name, words, symbols in (("report", "two", _TWO), ("report-ten", "ten", _TEN))
]
