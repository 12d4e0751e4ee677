"""What a column and a table are: kinds, units, keys; frames are built and checked here and nowhere else."""

from __future__ import annotations

from derivdata.schema.casts import floats, ranks
from derivdata.schema.kinds import Column, Kind
from derivdata.schema.open_table import OpenTable
from derivdata.schema.table import Table, coded, repeated

__all__ = ["Column", "Kind", "OpenTable", "Table", "coded", "floats", "ranks", "repeated"]
