"""The report on two symbols, from the sample to a file."""

from __future__ import annotations

import time
from pathlib import Path

import derivdata as dd
from benchmarks.row import OURS, Check, Made, Row

__all__ = ["ROWS"]

_MOST_SECONDS = 20.0
"""Ten seconds by the clock on two idle cores."""


def _report(folder: Path) -> Made:
    dd.connect("sample")

    def ours() -> Path:
        return dd.report(["BTC", "ETH"], out=str(folder / "report.html"))

    def seconds() -> list[Check]:
        began = time.process_time()
        ours()
        spent = time.process_time() - began
        return [
            Check(
                "processor seconds, answers in the cache",
                f"{spent:.1f}",
                f"≤ {_MOST_SECONDS:g}",
                spent <= _MOST_SECONDS,
            )
        ]

    return Made({OURS: ours}, checks=seconds)


ROWS = [
    Row(
        "report",
        what="`dd.report`, all sections",
        given="two symbols of the sample, 30 days; the sample makes its data on the way",
        make=_report,
        goals={},
        rounds=1,
    )
]
