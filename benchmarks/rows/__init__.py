"""All rows, in the order of the table."""

from __future__ import annotations

from benchmarks.rows import (
    answers,
    archive,
    backtests,
    black76,
    cache,
    growing,
    imports,
    lazy,
    panels,
    positions,
    service,
    smiles,
    surfaces,
    tables,
    venues,
)

__all__ = ["ROWS"]

ROWS = [
    *tables.ROWS,
    *cache.ROWS,
    *panels.ROWS,
    *backtests.ROWS,
    *black76.ROWS,
    *smiles.ROWS,
    *surfaces.ROWS,
    *positions.ROWS,
    *lazy.ROWS,
    *archive.ROWS,
    *imports.ROWS,
    *service.ROWS,
    *answers.ROWS,
    *growing.ROWS,
    *venues.ROWS,
]
