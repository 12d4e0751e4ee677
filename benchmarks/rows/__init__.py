"""All rows, in the order of the table."""

from __future__ import annotations

from benchmarks.rows import archive, black76, cache, panels, service, tables

__all__ = ["ROWS"]

ROWS = [*tables.ROWS, *cache.ROWS, *panels.ROWS, *black76.ROWS, *archive.ROWS, *service.ROWS]
