"""All rows, in the order of the table."""

from __future__ import annotations

from benchmarks.rows import (
    answers,
    archive,
    asked,
    backtests,
    black76,
    cache,
    desk,
    growing,
    imports,
    lazy,
    own_files,
    panels,
    positions,
    report,
    requests_over_http,
    service,
    smiles,
    surfaces,
    tables,
    venues,
)

__all__ = ["ROWS"]

ROWS = [
    *tables.ROWS,
    *requests_over_http.ROWS,
    *cache.ROWS,
    *panels.ROWS,
    *desk.ROWS,
    *backtests.ROWS,
    *black76.ROWS,
    *smiles.ROWS,
    *surfaces.ROWS,
    *positions.ROWS,
    *asked.ROWS,
    *lazy.ROWS,
    *archive.ROWS,
    *own_files.ROWS,
    *imports.ROWS,
    *service.ROWS,
    *answers.ROWS,
    *growing.ROWS,
    *venues.ROWS,
    *report.ROWS,
]
