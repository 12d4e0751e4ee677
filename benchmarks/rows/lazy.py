"""A panel of 3.4 GB in chunks with two workers, next to the same in memory with xarray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask

import derivdata as dd
from benchmarks.memory import peak_bytes_of
from benchmarks.row import OURS, Check, Made, Row, faster, stated
from benchmarks.rows.panels import best_by_xarray, panel

__all__ = ["ROWS"]

_CHUNK = 25
_CHUNK_BYTES = _CHUNK * 43 * 10_000 * 8
_XARRAY = "xarray with bottleneck, in memory: max, min, idxmax, idxmin"
_EAGER = "derivdata, in memory"
_READ = "limit: one read of the memory (numpy max)"


def _best_pair(_: Path) -> Made:
    rates = panel(1_000, 10_000, missing=0.1)
    chunked = rates.chunk(symbol=_CHUNK)

    def ours() -> Any:
        with dask.config.set(scheduler="threads", num_workers=2):
            return dd.analysis.funding.best_pair(chunked).compute()

    return Made(
        {
            OURS: ours,
            _XARRAY: lambda: best_by_xarray(rates),
            _EAGER: lambda: dd.analysis.funding.best_pair(rates),
            _READ: lambda: rates.values.max(),
        },
        checks=_peaks,
    )


def _peaks() -> list[Check]:
    """Most memory with chunks made as they are needed, of a fourth of the panel and of all of it."""
    few, all_ = (peak_bytes_of("panel", str(symbols), str(_CHUNK)) for symbols in (250, 1_000))
    value = f"{all_ / 1e6:.0f} MB; {few / 1e6:.0f} MB with a fourth of the chunks"
    return [
        Check(
            f"peak memory, chunks of {_CHUNK_BYTES / 1e6:.0f} MB made as they are needed",
            value,
            "≤ 1.25 × that of a fourth",
            all_ <= 1.25 * few,
        )
    ]


ROWS = [
    Row(
        "dask-best-pair",
        what="best long/short pair, dask-backed, two workers",
        given=f"43 venues × 1,000 symbols × 10,000 hours, 3.4 GB in chunks of {_CHUNK} symbols, 10 % missing",
        make=_best_pair,
        goals={_XARRAY: faster(3), _EAGER: stated(), _READ: stated()},
        clock="wall",
        rounds=3,
    )
]
